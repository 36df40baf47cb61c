// Do the documents say what the program does? Every ```sh block of docs/ runs, as a reader would type it, and every
// option, key and column has a meaning, in --help, in the manual pages and in the completions alike.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "scenarios/schema.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/skipped.h"
#include "tests/tools/program.h"
#include "tools/columns.h"
#include "tools/command_tree.h"

using namespace orrery;
using nlohmann::json;
using tests::Folder;
using tests::Outcome;

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> documents() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(tests::kSourceDir) / "docs")) {
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The ```sh blocks of a document, one after another; a block that needs root or a GPU says ```sh no-run.
std::string script_of(const fs::path& document) {
  std::istringstream lines(tests::read_file(document));
  std::string script;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = !inside && line == "```sh";
    } else if (inside) {
      script += line + "\n";
    }
  }
  return script;
}

struct Shell {
  int status = -1;
  std::string out;
};
/// Runs a script in `folder` with the program on its path.
Shell shell(const Folder& folder, const std::string& script, const char* interpreter = "bash -e") {
  const std::string file = folder.write("script", script), out = folder.file("script.out");
  const std::string program = fs::path(tests::kProgram).parent_path().string();
  const int status = std::system(fmt::format("cd '{}' && PATH='{}':\"$PATH\" {} '{}' > '{}' 2>&1",
                                             folder.path().string(), program, interpreter, file, out)
                                     .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, tests::read_file(out)};
}

bool there(const char* program) { return std::system(fmt::format("command -v {} > /dev/null", program).c_str()) == 0; }

/// Every key of a document, wherever it lies.
void collect(const json& value, std::set<std::string>& names) {
  if (value.is_array()) {
    for (const json& item : value) collect(item, names);
  }
  if (!value.is_object()) return;
  for (const auto& [name, member] : value.items()) {
    names.insert(name);
    if (name == "notes") continue;  // texts by the names of the files
    if (name == "lists") {          // by the names of the files
      for (const json& list : member) collect(list, names);
      continue;
    }
    // Below these the keys are names of their own: of the scenario's keys, and of tiers of its network.
    if (name != "set" && name != "values" && name != "vary" && name != "tier_bytes" && name != "shares_s")
      collect(member, names);
  }
}

void check_columns(const std::string& command, const std::set<std::string>& names) {
  for (const std::string& name : names) {
    const bool known =
        std::any_of(tools::columns().begin(), tools::columns().end(), [&](const tools::ColumnDoc& column) {
          return column.name == name &&
                 std::find(column.commands.begin(), column.commands.end(), command) != column.commands.end();
        });
    INFO(command << " writes " << name << ", which tools/columns.cc does not explain");
    CHECK(known);
  }
}

void check_json(const std::string& command, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), command);
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome outcome = tests::orrery(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  std::set<std::string> names;
  collect(json::parse(outcome.out), names);
  CHECK(names.size() > 2);
  check_columns(command, names);
}

void check_csv(const std::string& command, const std::string& text) {
  std::istringstream lines(text);
  std::string header;
  while (std::getline(lines, header) && header.starts_with("#")) {
  }
  std::set<std::string> names;
  std::istringstream cells(header);
  for (std::string cell; std::getline(cells, cell, ',');) {
    if (cell.find('.') == std::string::npos) names.insert(cell);  // with a dot: a key of the scenario
  }
  CHECK(names.size() > 1);
  check_columns(command, names);
}

}  // namespace

TEST_CASE("the tutorial's figures are those of its job") {
  INFO("run tools/readme_figures");
  std::string tutorial = tests::read_file(fs::path(tests::kSourceDir) / "docs/tutorial.md");
  const std::string begin = "<<'YAML'\n";
  const std::size_t from = tutorial.find(begin) + begin.size();
  const Folder folder;
  const std::string job = folder.write("job.yaml", tutorial.substr(from, tutorial.find("YAML\n", from) - from));
  std::replace(tutorial.begin(), tutorial.end(), '\n', ' ');  // sentences as they are read
  const auto step = [&](std::vector<std::string> sets) {
    std::vector<std::string> words{"run", job, "--json", "-"};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    return json::parse(tests::orrery(words).out);
  };
  const json first = step({}), deep = step({"parallelism.tensor=4", "parallelism.pipeline=16"}),
             flat = step({"parallelism.tensor=4", "parallelism.pipeline=8"});
  const auto number = [](const json& value) { return value.get<double>(); };
  const auto seconds = [&](const json& result) { return number(result["iteration_time_s"]); };
  const auto gb = [&](const json& result) { return number(result["memory"]["peak_bytes"]) / 1e9; };
  const double all = number(first["memory"]["capacity_bytes"]) / 1e9;
  const auto says = [&](const std::string& words) {
    INFO(words);
    CHECK(tutorial.find(words) != std::string::npos);
  };
  says(fmt::format("{:.2f} s a step, {:.1f} % MFU, {:.0f} of {:.0f} GB.", seconds(first), number(first["mfu_pct"]),
                   gb(first), all));
  says(fmt::format("{:.2f} s: the same step, and {:.0f} GB more memory", seconds(deep), gb(deep) - gb(first)));
  for (const auto& [part, tail] : {std::pair("tensor_comm", "ms)"), std::pair("bubble", "ms of bubble)")})
    says(fmt::format("({:.0f} instead of {:.0f} {}", 1e3 * number(deep["breakdown_s"][part]),
                     1e3 * number(first["breakdown_s"][part]), tail));
  says(fmt::format("TP4 PP8 needs {:.0f} of {:.0f} GB and takes {:.2f} s, {:.0f} % less than either", gb(flat), all,
                   seconds(flat), 100 * (1 - seconds(flat) / std::min(seconds(first), seconds(deep)))));
}

TEST_CASE("the README shows what advise prints first, it and the scoreboard the errors of the published steps") {
  const std::string readme = tests::read_file(fs::path(tests::kSourceDir) / "README.md");
  INFO("run tools/readme_figures");
  const std::string said = tests::orrery({"advise", "gpt3-6.7b-h100", "--top", "1"}).out;
  const std::string first = said.substr(0, said.find("\n\n", said.find("\n\n") + 2));
  REQUIRE(first.size() > 100);
  CHECK(readme.find("```\n" + first + "\n```") != std::string::npos);
  const json table = json::parse(tests::orrery({"reproduce", "megascale-eos", "--json", "-"}).out);
  // The first cells of their lines; the README leaves the step with validation to the whole table.
  const std::vector<std::pair<std::string, std::string>> names = {{"MegaScale", "| MegaScale, 12288 A100 |"},
                                                                  {"Megatron-LM", "| Megatron-LM, the same GPUs |"},
                                                                  {"Eos", "| Eos, 10752 H100 |"},
                                                                  {"Eos + validation", "| Eos with its share"}};
  const std::string scoreboard = tests::read_file(fs::path(tests::kSourceDir) / "docs/scoreboard.md");
  for (const json& row : table["rows"]) {
    const auto named =
        std::find_if(names.begin(), names.end(), [&](const auto& n) { return row["system"] == n.first; });
    REQUIRE(named != names.end());
    const std::string error = fmt::format("| {:+.1f} % |", row["cells"]["iteration_time_s"]["error_pct"].get<double>());
    for (const std::string* document : {&readme, &scoreboard}) {
      const std::size_t at = document->find(named->second);
      if (document == &readme && named->first == "Eos + validation") continue;
      REQUIRE(at != std::string::npos);
      const std::string line = document->substr(at, document->find('\n', at) - at);
      INFO(line);
      CHECK(line.ends_with(error));
    }
  }
}

TEST_CASE("pages of evidence, and the tables of accuracy.md, are what tools/evidence makes of the repository") {
  if (!there("python3")) {
    tests::skipped("no python3 to make the pages of evidence with; install the package python3");
    return;
  }
  const Folder folder;
  const Shell checked = shell(folder, fmt::format("'{}/tools/evidence' --check", tests::kSourceDir));
  INFO(checked.out << "run tools/evidence");
  CHECK(checked.status == 0);
}

TEST_CASE("the steps that mission.md gives for the request's network are those of its commands") {
  const std::string mission = tests::read_file(fs::path(tests::kSourceDir) / "docs/mission.md");
  for (const std::string& rate : {std::string(), std::string("160 Gb/s"), std::string("40 Gb/s")}) {
    std::string row;  // the end of its row: both steps
    for (const char* scenario : {"megascale-gpt3-175b", "eos-gpt3-175b"}) {
      std::vector<std::string> words{"run", scenario, "--json", "-"};
      if (!rate.empty()) words.insert(words.end(), {"--set", "cluster.fabric.nic_rate=" + rate});
      const json run = json::parse(tests::orrery(words).out);
      row += fmt::format(" | {:.2f}", run["iteration_time_s"].get<double>());
    }
    INFO(rate << row);
    const std::string begin = rate.empty() ? "\n| as the machines have" : "\n| " + rate;
    const std::size_t at = mission.find(begin);
    REQUIRE(at != std::string::npos);
    CHECK(mission.substr(at, mission.find(" |\n", at) - at).ends_with(row));
  }
}

TEST_CASE("the steps that mission.md gives for what Eos loses beside collectives are those of its factors") {
  const std::string mission = tests::read_file(fs::path(tests::kSourceDir) / "docs/mission.md");
  for (const auto& [group, tensor] : {std::pair{"1.05", "1.05"}, {"1", "1"}, {"1.031", "1.029"}, {"1.138", "1.029"}}) {
    const json run =
        json::parse(tests::orrery({"run", "eos-gpt3-175b", "--set",
                                   fmt::format("software.compute_slowdown_under_collective={}", group), "--set",
                                   fmt::format("software.tensor_overlap_slowdown={}", tensor), "--json", "-"})
                        .out);
    const std::string row = fmt::format("\n| {}, {}", group, tensor);
    INFO(row);
    const std::size_t at = mission.find(row);
    REQUIRE(at != std::string::npos);
    CHECK(mission.substr(at, mission.find(" |\n", at) - at)
              .ends_with(fmt::format(" | {:.3f}", run["iteration_time_s"].get<double>())));
  }
  // 132 SMs, less those that the submission's file names: product's share of a layer's FLOPs, and SMs held beside it.
  const std::vector<std::pair<double, double>> held{{1, 24}, {4, 4}, {3, 4}, {3, 8}, {4, 2}, {4, 4}, {12, 1}};
  double all = 0, slowed = 0;
  for (const auto& [share, processors] : held) {
    all += share;
    slowed += share * 132 / (132 - processors);
  }
  CHECK(fmt::format("{:.3f}", slowed / all) == "1.029");
}

TEST_CASE("every command in the documents runs", "[full-size]") {
  int run = 0;
  for (const fs::path& document : documents()) {
    const std::string script = script_of(document);
    if (script.empty()) continue;
    INFO(document.filename().string());
    const Folder folder;
    const Shell result = shell(folder, script);
    INFO(result.out);
    CHECK(result.status == 0);
    ++run;
  }
  CHECK(run >= 2);
}

TEST_CASE("the documents make a site, whose links lead somewhere and whose search finds what a document says") {
  const bool lunr = fs::exists("/usr/share/javascript/lunr") || std::getenv("ORRERY_LUNR") != nullptr;
  if (std::system("python3 -c 'import markdown' 2> /dev/null") != 0 || !lunr || !there("node")) {
    tests::skipped("no site of the documents; install the packages python3-markdown, libjs-lunr and nodejs");
    return;
  }
  const Folder folder;
  const std::string tool = std::string(tests::kSourceDir) + "/tools/site";
  const Shell made = shell(folder, fmt::format("'{}' '{}' site", tool, tests::kProgram));
  INFO(made.out);
  REQUIRE(made.status == 0);
  for (const char* page : {"index", "scenario", "commands", "gallery", "howto"})
    CHECK(fs::exists(folder.path() / "site" / (std::string(page) + ".html")));
  CHECK(tests::read_file(folder.path() / "site" / "scenario.html").find("parallelism.virtual_pipeline") !=
        std::string::npos);
  const Shell found = shell(folder, R"sh(cat > find.js <<'JS'
global.window = global;
global.lunr = require('./site/lunr.js');
require('./site/index.js');
const index = lunr.Index.load(window.siteIndex);
for (const word of ['bubble', 'deadline', 'zzzz']) console.log(word, index.search(word).length > 0);
JS
node find.js)sh");
  CHECK(found.out == "bubble true\ndeadline true\nzzzz false\n");
}

TEST_CASE("the documents name only commands and options that there are") {
  std::set<std::string> commands, options;
  for (const tools::CommandDoc& doc : tools::command_docs()) {
    if (doc.path.size() == 1) commands.insert(doc.path[0]);
    for (const tools::OptionDoc& option : doc.options) options.insert(option.names.begin(), option.names.end());
  }
  const std::regex call(R"(orrery ([a-z]+)([^`\n]*))"), flag(R"( (--[a-z][a-z-]*))");
  std::size_t calls = 0;
  for (const fs::path& document : documents()) {
    // Only what is written as code: in blocks, and between back quotes.
    std::istringstream lines(tests::read_file(document));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("orrery ") && line.find("`orrery ") == std::string::npos) continue;
      for (std::sregex_iterator at(line.begin(), line.end(), call), end; at != end; ++at, ++calls) {
        INFO(document.filename().string() << ": " << line);
        CHECK(commands.contains((*at)[1].str()));
        const std::string rest = (*at)[2].str();
        const auto of = [&](const char* kind) { return rest.starts_with(kind); };
        if ((*at)[1].str() == "import" && (of(" megatron") || of(" vllm") || of(" sglang"))) continue;  // their flags
        for (std::sregex_iterator f(rest.begin(), rest.end(), flag); f != end; ++f)
          CHECK(options.contains((*f)[1].str()));
      }
    }
  }
  CHECK(calls >= 10);
}

TEST_CASE("the picture of the path of data is the one that its source draws") {
  const std::string dot = tests::read_file(fs::path(tests::kSourceDir) / "docs/path.dot");
  const std::string svg = tests::read_file(fs::path(tests::kSourceDir) / "docs/path.svg");
  const std::regex label(R"re(label="([^"]+)")re");
  std::size_t labels = 0;
  for (std::sregex_iterator at(dot.begin(), dot.end(), label), end; at != end; ++at, ++labels) {
    std::string text = (*at)[1].str();
    text = text.substr(0, text.find("\\n"));
    INFO(text);
    CHECK(svg.find(">" + text + "<") != std::string::npos);
  }
  CHECK(labels > 10);
}

TEST_CASE("every option has a meaning, and every choice is shown") {
  for (const tools::CommandDoc& doc : tools::command_docs()) {
    INFO(doc.name());
    CHECK(doc.summary.size() > 10);
    std::vector<std::string> arguments = doc.path;
    arguments.emplace_back("--help");
    const Outcome help = tests::orrery(arguments);
    CHECK(help.status == 0);
    CHECK(help.err.empty());
    for (const tools::OptionDoc& option : doc.options) {
      INFO(option.positional << fmt::format("{}", fmt::join(option.names, ",")));
      CHECK(option.meaning.size() > 5);
      for (const std::string& name : option.names) CHECK(help.out.find(name) != std::string::npos);
      for (const std::string& choice : option.choices) CHECK(help.out.find(choice) != std::string::npos);
    }
  }
}

TEST_CASE("manual pages say what help says, and roff reads them without a warning") {
  const Folder folder;
  CHECK(tests::orrery({"man", "--out", folder.path().string()}).status == 0);
  std::size_t pages = 0;
  for (const tools::CommandDoc& doc : tools::command_docs()) {
    std::string name = "orrery";
    for (const std::string& part : doc.path) name += "-" + part;
    const std::string page = tests::read_file(folder.path() / "man1" / (name + ".1"));
    INFO(name);
    CHECK(page.starts_with(".TH"));
    for (const tools::OptionDoc& option : doc.options) {
      for (std::string text : option.names) {
        for (std::size_t at = 0; (at = text.find('-', at)) != std::string::npos; at += 2) text.insert(at, "\\");
        CHECK(page.find(text) != std::string::npos);
      }
    }
    ++pages;
  }
  CHECK(pages > 15);
  const std::string language = tests::read_file(folder.path() / "man5/orrery-scenario.5");
  for (const scenarios::Key& key : scenarios::schema()) {
    std::string path = key.path;
    for (std::size_t at = 0; (at = path.find('-', at)) != std::string::npos; at += 2) path.insert(at, "\\");
    CHECK(language.find(path) != std::string::npos);
  }
  CHECK(tests::orrery({"man", "orrery-rum"}).err.find("orrery-run") != std::string::npos);
  if (!there("groff")) {
    tests::skipped("no groff to draw the manual pages with; install the package groff");
    return;
  }
  const Shell drawn =
      shell(folder, "for page in man1/*.1 man5/*.5; do groff -man -Tutf8 -ww \"$page\" > /dev/null; done");
  CHECK(drawn.status == 0);
  CHECK(drawn.out.empty());
}

TEST_CASE("shells complete commands, options, choices and keys") {
  const Folder folder;
  const std::string complete = R"sh(set +e  # nothing found is no failure
eval "$(orrery completion bash)"
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _orrery; echo "${COMPREPLY[@]}"; }
try orrery ru
try orrery run --ran
try orrery run --ranks f
try orrery sweep job.yaml --vary parallelism.contex
try orrery import h
try orrery import megatron --o
try orrery run gpt3-6.7b-h
try orrery help parallelism.virt
try orrery run job.yaml --set parallelism.schedule = zb
try orrery run job.yaml --set overlap.tensor =
try orrery run job.yaml --set parallelism.schedule=v_
try orrery run job.yaml --set cluster.device = gb3
try orrery run job.yaml --set parallelism.tensor =
)sh";
  const Shell result = shell(folder, complete);
  CHECK(result.status == 0);
  CHECK(result.out ==
        "run\n--ranks\nfolded full\nparallelism.context "
        "parallelism.context_method\nhf\n--out\ngpt3-6.7b-h100\nparallelism.virtual_pipeline\n"
        "zb_h1 zb_h2 zb_v\ntrue false\nparallelism.schedule=v_half parallelism.schedule=v_min\ngb300\n\n");
  for (const char* name : {"zsh", "fish"}) {
    const std::string script = tests::orrery({"completion", name}).out;
    CHECK(script.find("parallelism.tensor") != std::string::npos);
    if (there(name)) CHECK(shell(folder, script, fmt::format("{} -n", name).c_str()).status == 0);
    if (!there(name)) tests::skipped(fmt::format("no {0} to parse its completion with; install the package {0}", name));
  }
  CHECK(tests::orrery({"completion", "tcsh"}).status == 2);
}

TEST_CASE("every column and every key of a JSON document is explained, with its unit") {
  const Folder folder;
  const std::string scenario =
      folder.write("small.yaml", tests::small_scenario() +
                                     "evaluation: {every_steps: 10, sequences: 64}\ntraining: {tokens: 1e9}\n"
                                     "cost: {price_per_gpu_hour_usd: 2}\nmeasured: {iteration_s: 0.2}\n");
  check_json("run", {scenario, "--advise"});
  check_json("run", {scenario, "--set", "batch.micro=256", "--set", "batch.global=4096"});  // what would fit
  check_json("advise", {scenario});
  check_json("traffic", {scenario});
  check_json("validate", {scenario});
  check_json("compare", {scenario, scenario});
  check_json("collective", {scenario, "--op", "all_reduce", "--gpus", "16", "--sizes", "1MB:4MB:2"});
  check_json("topology", {scenario});
  check_json("flows", {folder.write("flows.csv", "id,src,dst,bytes,start_s,links\na,0,1,1000,0,l\n"), "--out",
                       folder.file("ends.csv")});
  check_json("reproduce", {"megascale-eos"});
  check_json("reproduce", {"reliability"});
  check_json("campaign",
             {scenario, "--seeds", "10", "--set", "campaign={failures: {causes: {gpu: {mtbf: 200 h, loses: node}}}}"});
  check_json("reproduce", {"mlperf-time"});
  check_json("queue",
             {scenario, folder.write("jobs.csv", "submit_s,gpus,duration_s\n0,8,60\n1,16,60\n"), "--resample", "2"});
  check_json("place", {scenario});
  check_json("rl",
             {"qwen3-32b-grpo-256h100-separate", "--split", "--set", "rl.prompts=64", "--set", "rl.mini_batch=256"});
  check_json("search", {"llama3.1-70b-serving-h100", "--set", "traffic.duration=5 s"});
  const std::string trace = folder.file("trace.json");
  REQUIRE(tests::orrery({"run", scenario, "--trace", trace, "--trace-ranks", "0"}).status == 0);
  check_json("diff", {trace, scenario});
  check_json("replay", {trace, "--scenario", scenario});
  const std::string sweep = folder.file("sweep.csv"), search = folder.file("search.csv");
  check_json("sweep", {scenario, "--vary", "batch.micro=1,2", "--csv", sweep, "--set", "parallelism.data=null"});
  check_json("search", {scenario, "--top", "2", "--csv", search});
  check_csv("sweep", tests::read_file(sweep));
  check_csv("search", tests::read_file(search));
  for (const tools::ColumnDoc& column : tools::columns()) {
    INFO(column.name);
    CHECK(column.meaning.ends_with("."));
    CHECK(column.commands.begin() != column.commands.end());
    const std::string_view name = column.name;
    // A name that ends in a unit says so.
    for (const auto& [ending, unit] : {std::pair{"_s", "s"}, {"_pct", "%"}, {"_gb", "GB"}, {"_us", "us"}}) {
      if (name.ends_with(ending) && !name.ends_with("per_s")) CHECK(column.unit == unit);
    }
  }
}

TEST_CASE("help explains keys and columns, also as JSON") {
  CHECK(tests::orrery({"help", "busbw_gbs"}).out.find("unit: GB/s") != std::string::npos);
  CHECK(tests::orrery({"help", "parallelism.tensor"}).out.find("default: 1") != std::string::npos);
  const json one = json::parse(tests::orrery({"help", "batch.global", "--json", "-"}).out);
  CHECK(one["keys"][0]["unit"] == "sequences");
  CHECK(one["keys"][0]["required"] == true);
  const json all = json::parse(tests::orrery({"help", "--json", "-"}).out);
  CHECK(all["keys"].size() == scenarios::schema().size());
  CHECK(all["columns"].size() == tools::columns().size());
  CHECK(tests::orrery({"help", "parallelism.tensr"}).status == 2);
}

TEST_CASE("nothing but text is printed where there is no terminal") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"help"}, {"run", "gpt3-6.7b-h100"}, {"reproduce"}}) {
    const Outcome outcome = tests::orrery(arguments);
    CHECK((outcome.out + outcome.err).find('\033') == std::string::npos);
  }
}
