// Files that crashed a reader, filled the memory or ended in an internal error, as fuzzing (tests/fuzz) found them:
// each is refused in a line. Their like lies in tests/fuzz/corpus.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/thinned.h"
#include "tests/tools/program.h"
#include "tools/explain/like_rows.h"
#include "tools/import/import.h"
#include "tools/import/wires.h"
#include "tools/learn/trace.h"

using namespace orrery;
using tests::Folder;

namespace {

template <class Read>
std::string refusal(Read read) {
  try {
    read();
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "(read)";
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos && text.find('\n') == std::string::npos;
}

std::string slurm(const std::string& text) {
  return refusal([&] { tools::read_slurm_topology(text, "topology.conf", {}); });
}

std::string kernel(const std::string& ts, const std::string& dur) {
  return fmt::format(R"({{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{},"dur":{},)"
                     R"("args":{{"stream":7,"correlation":1}}}})",
                     ts, dur);
}

}  // namespace

TEST_CASE("hosts: products of ranges, numbers at the end of their type and long names are refused at once") {
  std::string product = "SwitchName=s1 Nodes=";
  for (int i = 0; i < 200; ++i) product += "n[4-5,7]";  // 3^200 names of 800 characters
  CHECK(says(slurm(product), "topology.conf:1:1: Nodes: got a name of 1600 characters"));
  CHECK(says(slurm("SwitchName=s1 Nodes=n[9223372036854775806-9223372036854775807]"), "expected a range"));
  CHECK(says(slurm("SwitchName=s1 Nodes=n[" + std::string(400, '0') + "1]"), "characters"));
  CHECK(says(slurm("SwitchName=" + std::string(300, 's') + " Nodes=n1"), "SwitchName: got 300 characters"));
  CHECK(says(slurm("SwitchName=s1 Nodes=n[0-999999],m"), "more than a million hosts"));
  CHECK(tools::expand_hosts("r[0-1]c[0-1]n[0-3]", {}).size() == 16);        // what is meant still goes
  CHECK(tools::expand_hosts("r[0-9999]c[0-9999]n[0-9999][]", {}).empty());  // 10^12 beginnings of no name
}

TEST_CASE("switches: a tree that is none, in depth or in width, is refused") {
  // Each level names the next one twice: 10 hosts become 10 x 2^28.
  std::string doubling, chain;
  for (int i = 0; i < 28; ++i) doubling += fmt::format("SwitchName=s{} Switches=s{},s{}\n", i, i + 1, i + 1);
  CHECK(says(slurm(doubling + "SwitchName=s28 Nodes=n[0-9]\n"), "expected a tree"));
  for (int i = 0; i < 100'000; ++i) chain += fmt::format("SwitchName=s{} Switches=s{}\n", i, i + 1);
  CHECK(says(slurm(chain + "SwitchName=s100000 Nodes=n1\n"), "levels"));
}

TEST_CASE("a list of cables without a host is none of a cluster, and rates have a few digits") {
  const Folder folder;
  const auto topology = [&](const std::string& text) {
    return refusal([&] { tools::import_topology(folder.write("net.txt", text), {}); });
  };
  const std::string head = "Switch\t40 \"S-a\"\t# \"a\"\n";
  const std::string to_b = "[1]\t\"S-b\"[1]\t# \"b\" lid 3 4xHDR\n", b = "Switch\t40 \"S-b\"\t# \"b\"\n";
  CHECK(says(topology(head + to_b + b), "net.txt:1:1: names no host"));
  CHECK(topology(head + to_b) != "(read)");  // cut off before the switch that it names
  CHECK(topology(head + "[1]\t\"H-b\"[1]\t# \"b\" lid 3 " + std::string(400, '9') + "xHDR\n") == "(read)");
}

TEST_CASE("names with quotes stay names in what is imported") {
  const Folder folder;
  const std::string text = "a,b,rate,kind\nn'0,s'0,400 Gb/s,nic\nn1,s1,400 Gb/s,nic\ns'0,s1,400 Gb/s,link\n";
  const std::string fabric = tools::import_topology(folder.write("net.csv", text), {});
  CHECK(fabric.find("['s''0'") != std::string::npos);
}

TEST_CASE("traces of ages, and calls within calls without end, are refused") {
  const Folder folder;
  const auto trace = [&](const std::string& events) {
    return refusal([&] { tools::read_trace(folder.write("t.json", "{\"traceEvents\": [" + events + "]}")); });
  };
  CHECK(trace(kernel("1", "5")) == "(read)");
  CHECK(says(trace(kernel("1", "2000000000000")), "at most 11 days"));
  CHECK(says(trace(kernel("1", "5") + "," + kernel("1e300", "1")), "at most 11 days"));
  CHECK(says(trace(kernel("-1e300", "5") + "," + kernel("1e300", "1e300")), "at most 11 days"));
  std::string nested = kernel("1", "5");
  for (int i = 0; i < 2000; ++i) {
    nested += fmt::format(R"(,{{"ph":"X","cat":"cpu_op","name":"f","pid":1,"tid":1,"ts":{},"dur":{},"args":{{}}}})", i,
                          10'000 - 2 * i);
  }
  CHECK(says(trace(nested), "more than 1000 deep"));
}

TEST_CASE("TOML that its parser gives up on is refused as the rest") {
  const Folder folder;
  const auto toml = [&](const std::string& text) {
    return refusal([&] { tools::read_toml(folder.write("c.toml", text)); });
  };
  CHECK(says(toml("k = \"\\u0.5e9\\t\"\n"), "got what is no TOML"));
  CHECK(says(toml("[\n"), "got what is no TOML"));
  CHECK(says(toml("["), "got what is no TOML"));
  // Letters outside of ASCII: in every kind of string and in comments, and between them.
  CHECK(toml("k = \"\xc3\xa7 \\\" \xc3\xa7\"  # \xc3\xa7 \"\nl = '\xc3\xa7\\'  # '\n") == "(read)");
  CHECK(toml("k = \"\"\"\n\xc3\xa7 \" \\\" \"\"\"\"\"\nl = '''\n\xc3\xa7 ' '''\n\"\xc3\xa7\" = 1\n") == "(read)");
  const sim::Settings letters =
      tools::read_toml(folder.write("c.toml", "k = \"\xc3\xa7~7e ~\\u00e7\"\n\"\xc3\xa7\" = 1\n"));
  CHECK(letters.find("k")->text() == "\xc3\xa7~7e ~\xc3\xa7");
  CHECK(letters.find("\xc3\xa7") != nullptr);
  for (const char* text : {"\nk = \xc3\xa7\n", "\n\xc3\xa7 = 1\n", "#\nk = \"\" \xc3\xa7\n", "\nk = '' \xc3\xa7\n"})
    CHECK(says(toml(text), "c.toml:2:"));
  // An empty list is no table, wherever a key goes on behind it; a number a line, a list of numbers, not in their
  // square.
  CHECK(says(toml("a = []\na.b = 1\n"), "c.toml:2:"));
  CHECK(says(toml("a = []\n[[a]]\n"), "c.toml:2:"));
  std::string numbers, list = "e = [1";
  for (int n = 0; n < 4'000; ++n) numbers += fmt::format("e{} = 2.51\n", n);
  for (int n = 0; n < 40'000; ++n) list += ", 2.51";
  CHECK(toml(numbers) == "(read)");
  CHECK(toml(list + "]\n") == "(read)");
  std::string more = numbers, tables;
  for (int n = 4'000; n < 5'000; ++n) more += fmt::format("e{} = 2.51\n", n);
  for (int n = 0; n < 50'000; ++n) tables += fmt::format("[t{}]\nx=1\n", n);
  CHECK(says(toml(more), "got 5000 keys, expected at most 4096"));
  CHECK(says(toml(tables), "got 50000 keys, expected at most 4096"));
  CHECK(says(toml("a = 1\n" + std::string((1 << 20) + 1, '#')), "got more than 1 MiB, expected a configuration"));
  CHECK(says(toml(list + "x]\n"), "c.toml:1:240007: got what is no TOML"));
  CHECK(says(toml("a = " + std::string(40, '[') + std::string(40, ']')), "is nested too deep"));
  CHECK(says(toml("a = " + std::string(100'000, '[')), "is nested too deep"));
  CHECK(toml("k = \"\\u00e9\"\n") == "(read)");
  CHECK(says(toml("a = 1\n'\xe2 d' = 2\n"), "c.toml:2:1: got bytes that are no UTF-8, expected text"));
}

TEST_CASE("bytes that are no text do not reach an imported scenario") {
  const std::string words = "--num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 64 --bf16 --wings ";
  const std::string yaml = tools::import_megatron(tools::read_launch_line(words + "\x13\xd3", "run.sh")).yaml();
  CHECK(yaml.find("wings") != std::string::npos);
  CHECK(yaml.find_first_of("\x13\xd3") == std::string::npos);
  tools::Draft draft("run.sh");
  CHECK(says(refusal([&] { draft.set("name", std::string("a\x1b[31m"), {"run.sh", 3, 4}); }), "run.sh:3:4: name: got"));
  CHECK(says(refusal([&] { draft.set("name", std::string("a\nb"), {"run.sh", 3, 4}); }), "expected a line of text"));
}

TEST_CASE("a table of rows with an open quote, or with figures that are none, is refused with its line") {
  const Folder folder;
  const auto rows = [&](const std::string& text) {
    return refusal([&] { tools::read_known_rows(folder.write("rows.csv", text)); });
  };
  CHECK(says(rows("\"list,id\n"), "rows.csv:1:0"));
  const std::string known = tests::read_file(std::string(tests::kSourceDir) + "/scenarios/published/residuals.csv");
  const std::string head = known.substr(0, known.find('\n') + 1);
  const std::size_t within = known.find(",384,");  // a row of 384 GPUs
  REQUIRE(within != std::string::npos);
  const std::size_t from = known.rfind('\n', within) + 1;
  const std::string row = known.substr(from, known.find('\n', from) + 1 - from);
  CHECK(rows(head + row) == "(read)");
  for (const char* gpus : {"1e300", "nan", "inf", "many", "384x"}) {
    std::string changed = row;
    changed.replace(changed.find(",384,"), 5, fmt::format(",{},", gpus));
    CHECK(says(rows(head + changed), fmt::format("rows.csv:2:0: got '{}' for gpus", gpus)));
  }
}

namespace {

std::string nested(const std::string& open, const std::string& close, int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

/// Runs the program on what it must refuse: within a second of the processor's time and 256 MB.
void check_cheap(const std::vector<std::string>& words) {
  const pid_t child = tests::spawn_orrery(words);
  REQUIRE(child != 0);
  int status = 0;
  rusage used{};
  REQUIRE(::wait4(child, &status, 0, &used) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
#ifndef __SANITIZE_ADDRESS__
  CHECK(used.ru_utime.tv_sec + used.ru_stime.tv_sec < 1);
  CHECK(used.ru_maxrss < 256 * 1000);  // kB
#endif
}

}  // namespace

TEST_CASE("every reader refuses nested text at once, whatever it nests") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", tests::small_scenario());
  std::vector<std::string> texts;
  for (const int depth : {65, 80'000, 1'000'000}) {
    texts.push_back(nested("[", "]", depth));
    texts.push_back(nested("[", "", depth));
    texts.push_back(nested("{\"a\":", "}", depth));
    texts.push_back("{\"0\":" + nested("[", "]", depth) + "}");
  }
  texts.push_back("[" + nested("0,", "", 3'000'000) + "0]");  // wide in place of deep
  std::size_t at = 0;
  for (const std::string& text : texts) {
    ++at;
    INFO(text.substr(0, 20) << " of " << text.size());
    const std::string tree = folder.write("n.json", text), yaml = folder.write("n.yaml", "a: " + text),
                      log = folder.write("n.log", ":::MLLOG " + text + "\n"),
                      value = folder.write("v.log", ":::MLLOG {\"key\": \"a\", \"value\": " + text + "}\n"),
                      toml = folder.write("n.toml", "a = " + text), list = folder.write("list.yaml", "- a: " + text),
                      trace = folder.write("t.json", "{\"traceEvents\": [{\"args\": " + text + "}]}"),
                      groups = folder.write("s.0.et", "");
    const std::vector<std::vector<std::string>> readers{{"import", "hf", tree},
                                                        {"import", "deepspeed", tree},
                                                        {"import", "accelerate", yaml},
                                                        {"import", "nemo", yaml},
                                                        {"import", "mllog", log},
                                                        {"import", "mllog", value},
                                                        {"import", "torchtitan", toml},
                                                        {"replay", groups, "--groups", tree},
                                                        {"run", yaml},
                                                        {"validate", list},
                                                        {"run", scenario, "--set", "cluster.fabric=" + yaml},
                                                        {"learn", trace, "--scenario", scenario}};
    for (std::size_t i = 0; i < readers.size(); ++i) {
      INFO(readers[i][0] << " " << readers[i][1]);
      if (tests::tried(at, i, 6)) check_cheap(readers[i]);
    }
  }
}

TEST_CASE("a circle of links and a name that is too long are the user's errors, read and written") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", tests::small_scenario()), circle = folder.file("circle");
  tests::fs::create_symlink("circle", circle);
  std::size_t at = 0;
  for (const std::string& name : {circle, circle + "/x", std::string(5000, 'a')}) {
    ++at;
    INFO(name.substr(0, 100));
    const std::vector<std::vector<std::string>> uses{{"run", name},
                                                     {"run", scenario, "--json", name},
                                                     {"run", scenario, "--trace", name},
                                                     {"run", scenario, "--report", name},
                                                     {"run", scenario, "--set", "model=" + name},
                                                     {"validate", name},
                                                     {"compare", name, scenario},
                                                     {"calibrate", name, "--check", "h100-sxm-80gb"},
                                                     {"calibrate", scenario, "--check", name},
                                                     {"learn", name, "--scenario", scenario},
                                                     {"replay", name},
                                                     {"flows", name},
                                                     {"topology", name},
                                                     {"import", "hf", name},
                                                     {"import", "topology", name}};
    for (std::size_t i = 0; i < uses.size(); ++i) {
      INFO(uses[i][0] << " " << (uses[i].size() > 2 ? uses[i][2] : ""));
      if (tests::tried(at, i, 3)) CHECK(tests::orrery(uses[i]).status == 2);
    }
  }
}
