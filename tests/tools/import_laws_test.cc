// The law of importers for forms whose lines are no keys of a document: recipes in Python, what a cluster's tools print
// of its wiring, launch lines of inference servers, logs. A value that is changed changes the scenario, is named or
// refused; a line, an argument or an attribute that nobody knows is named or refused, wherever it stands; and a line
// that is taken away does no worse than that.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/import.h"
#include "tools/import/serving_flags.h"
#include "tools/import/wires.h"

using namespace orrery;
using tests::Folder;

namespace {

using Told = std::function<std::string(const std::string&)>;  // values and remarks of a text; "refused: ..." else

std::string all_of_draft(const tools::Draft& draft) {
  return fmt::format("{}\n{}\n{}", draft.values(), fmt::join(draft.ignored(), "\n"), fmt::join(draft.assumed(), "\n"));
}

Told told_of(std::function<std::string(const std::string&)> read) {
  return [read = std::move(read)](const std::string& text) {
    try {
      return read(text);
    } catch (const sim::UserError& error) {
      return fmt::format("refused: {}", error.what());
    }
  };
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}
std::string text_of(const std::vector<std::string>& lines) { return fmt::format("{}\n", fmt::join(lines, "\n")); }

/// Another value of the same kind, quotes and all.
std::string other_value(const std::string& value) {
  if (value == "True") return "False";
  if (value == "False") return "True";
  if (value == "None") return "7";
  if (value.find_first_not_of("0123456789") == std::string::npos) return std::to_string(2 * std::stoll(value));
  return value.starts_with('"') ? "\"zzz-other\"" : "zzz_other";
}

/// Each value behind a sign of `signs` in turn, and each line taken away.
void check_values(const std::string& text, const std::regex& value, const Told& told) {
  const std::string before = told(text);
  REQUIRE_FALSE(before.starts_with("refused"));
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::sregex_iterator at(lines[i].begin(), lines[i].end(), value), end; at != end; ++at) {
      std::vector<std::string> changed = lines;
      const auto from = static_cast<std::size_t>(at->position(2));
      changed[i].replace(from, static_cast<std::size_t>(at->length(2)), other_value((*at)[2]));
      INFO(changed[i]);
      const std::string after = told(text_of(changed));
      CHECK((after != before || after.find((*at)[1].str()) != std::string::npos));
    }
    std::vector<std::string> without = lines;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK_NOTHROW(told(text_of(without)));
  }
}

/// `added` ahead of each line that `where` says, with that line's blanks.
void check_lines(const std::string& text, const std::function<std::string(const std::string&)>& added,
                 const Told& told) {
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line = added(lines[i]);
    if (line.empty()) continue;
    std::vector<std::string> more = lines;
    more.insert(more.begin() + static_cast<std::ptrdiff_t>(i), line);
    INFO(line << " ahead of " << lines[i]);
    const std::string after = told(text_of(more));
    CHECK((after.find("unheard") != std::string::npos || after.starts_with("refused")));
  }
}

constexpr const char* kLawNemo = R"(import nemo_run as run
from nemo.collections import llm
from nemo.collections.llm.recipes.precision.mixed_precision import bf16_mixed


def configure():
    recipe = llm.llama3_70b.pretrain_recipe(
        name="mine",
        num_nodes=4,
        num_gpus_per_node=8,
    )
    recipe.trainer.strategy.tensor_model_parallel_size = 4
    recipe.trainer.strategy.pipeline_model_parallel_size = 4
    recipe.trainer.strategy.virtual_pipeline_model_parallel_size = 5
    recipe.trainer.strategy.context_parallel_size = 1
    recipe.trainer.strategy.sequence_parallel = True
    recipe.trainer.strategy.ddp.overlap_grad_reduce = True
    recipe.trainer.strategy.ddp.grad_reduce_in_fp32 = False
    recipe.trainer.plugins.grad_reduce_in_fp32 = False
    recipe.trainer.max_steps = 100
    recipe.trainer.val_check_interval = 50
    recipe.trainer.limit_val_batches = 2
    recipe.trainer.log_every_n_steps = 10
    recipe.data.global_batch_size = 256
    recipe.data.micro_batch_size = 1
    recipe.data.seq_length = 8192
    recipe.model.config.recompute_granularity = "full"
    recipe.model.config.recompute_method = "block"
    recipe.model.config.recompute_num_layers = 2
    recipe.model.config.hidden_dropout = 0
    recipe.optim.config.lr = 3
    recipe.optim.config.optimizer = "adam"
    recipe.log.ckpt = None
    return recipe


if __name__ == "__main__":
    run.run(configure())
)";

constexpr const char* kLawBridge = R"(from megatron.bridge import AutoBridge


def qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config() -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("Qwen/Qwen3-30B-A3B").to_megatron_provider()
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.pipeline_model_parallel_size = 2
    cfg.model.expert_model_parallel_size = 4
    cfg.model.sequence_parallel = True
    cfg.model.moe_token_dispatcher_type = "alltoall"
    cfg.model.moe_permute_fusion = True
    cfg.model.cuda_graph_impl = None
    cfg.model.recompute_granularity = "selective"
    cfg.dataset.seq_length = 4096
    cfg.train.global_batch_size = 128
    cfg.train.micro_batch_size = 1
    cfg.train.train_iters = 50
    cfg.mixed_precision = "bf16_mixed"
    cfg.ddp = DistributedDataParallelConfig(
        overlap_grad_reduce=True,
        use_distributed_optimizer=True,
        average_in_collective=True,
    )
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)
    cfg.optimizer.optimizer = "adam"
    cfg.optimizer.lr = 3
    cfg.scheduler.lr_warmup_iters = 10
    cfg.checkpoint.save_interval = 10
    return cfg
)";

constexpr const char* kLawTitan = R"(from torchtitan.models.qwen3 import model_registry
from torchtitan.trainer import Trainer


def mine() -> Trainer.Config:
    config = Trainer.Config(
        model_spec=model_registry(
            "30B-A3B",
            moe_comm_backend="deepep",
        ),
        optimizer=OptimizersContainer.Config(
            name="AdamW",
        ),
        training=TrainingConfig(
            seq_len=4096,
            local_batch_size=2,
            steps=100,
        ),
        validator=Validator.Config(
            enable=True,
            freq=50,
            steps=4,
        ),
        activation_checkpoint=FullAC.Config(),
    )
    config.parallelism.expert_parallel_degree = 4
    config.parallelism.tensor_parallel_degree = 2
    config.compile.enable = True
    config.metrics.log_freq = 10
    config.debug.seed = 7
    return config
)";

const std::string kWiresSlurm =
    "SwitchName=leaf1 Nodes=node[01-04]\nSwitchName=leaf2 Nodes=node[05-08]\nSwitchName=spine Switches=leaf[1-2]\n";
const std::string kWiresBlocks = "BlockName=b1 Nodes=n[0-1]\nBlockName=b2 Nodes=n[2-3]\nBlockSizes=2\n";
const std::string kWiresTree =
    "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n    - switch: root\n      children: s[1-2]\n"
    "    - switch: s1\n      nodes: node[01-02]\n    - switch: s2\n      nodes: node[03-04]\n";
const std::string kWiresTable =
    "a,b,rate,lanes,kind\nn0,s0,400 Gb/s,8,nic\nn1,s1,400 Gb/s,8,nic\ns0,s1,800 Gb/s,4,link\n";
const std::string kWiresIblinkinfo =
    "Switch: 0x0c42 MF0;sw1:MQM8700/U1:\n"
    "           3    2[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       2    1[  ] \"gpu-1 HCA-1\" ( )\n"
    "           3    3[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       6    1[  ] \"gpu-3 HCA-1\" ( )\n";
const std::string kWiresIbnetdiscover =
    "vendid=0x2c9\n"
    "Switch\t40 \"S-a\"\t\t# \"leaf\" base port 0 lid 2 lmc 0\n[1]\t\"H-1\"[1](1) \t\t# \"gpu1 mlx5_0\" lid 7 4xHDR\n"
    "[2]\t\"H-2\"[1](2) \t\t# \"gpu2 mlx5_0\" lid 8 4xHDR\n";
const std::string kWiresSmi =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\nGPU0\t X \tNV4\tSYS\tSYS\tPXB\t0-31\n"
    "GPU1\tNV4\t X \tSYS\tSYS\tPXB\t0-31\nGPU2\tSYS\tSYS\t X \tNV4\tSYS\t0-31\nGPU3\tSYS\tSYS\tNV4\t X \tSYS\t0-31\n";
const std::string kWiresNccl =
    "<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0000:10:00.0\" class=\"0x030200\">\n<gpu dev=\"0\">\n"
    "<nvlink target=\"0000:05:00.0\" count=\"18\" tclass=\"0x068000\"/>\n</gpu>\n</pci>\n"
    "<pci busid=\"0000:20:00.0\" class=\"0x030200\">\n<gpu dev=\"1\">\n"
    "<nvlink target=\"0000:05:00.0\" count=\"18\" tclass=\"0x068000\"/>\n</gpu>\n</pci>\n</cpu>\n</system>\n";

/// Beside an attribute that is set another one of the same object; beside an argument another one.
std::string beside_python(const std::string& line, const std::string& value) {
  static const std::regex kSet(R"(^(\s*\w+(?:\.\w+)*)\.\w+ = .*$)"), kArgument(R"(^(\s*)\w+=.*,$)");
  std::smatch match;
  if (std::regex_match(line, match, kSet)) return match[1].str() + ".unheard = " + value;
  if (std::regex_match(line, match, kArgument)) return match[1].str() + "unheard=" + value + ",";
  return "";
}

}  // namespace

TEST_CASE("no line of a recipe in Python is dropped without a word") {
  const Folder folder;
  const Told nemo = told_of([&](const std::string& text) {
    return all_of_draft(tools::import_nemo_recipe(folder.write("mine.py", text), 0, ""));
  });
  const Told bridge = told_of([&](const std::string& text) {
    return all_of_draft(tools::import_bridge(folder.write("mine.py", text), 0, "", {}));
  });
  static const std::regex kValue(R"re(\b(\w+) ?= ?("[^"]*"|\d+|True|False|None)(?=,?\)?$))re");
  const Told titan = told_of([&](const std::string& text) {
    return all_of_draft(tools::import_torchtitan(folder.write("mine.py", text), 64));
  });
  for (const auto& [text, told] : {std::pair(kLawNemo, nemo), {kLawBridge, bridge}, {kLawTitan, titan}}) {
    check_values(text, kValue, told);
    for (const std::string value :
         {"7", "\"a text\"", "None", "[1, 2]", "{\"a\": 1}", "Something(a=1)", "args.size", "f(3)"})
      check_lines(
          text, [&](const std::string& line) { return beside_python(line, value); }, told);
    // Calls of what no file here has, handed the recipe or a part of it.
    const std::string recipe = text == kLawNemo ? "recipe" : text == kLawTitan ? "config" : "cfg";
    for (const char* call : {"unheard({})", "unheard({}.model)", "lib.unheard({})", "{}.unheard()", "unheard(1, {})",
                             "unheard(config={})"}) {
      const std::string statement = fmt::format(fmt::runtime(call), recipe);
      const auto ahead = [&](const std::string& line) {
        const bool attribute = line.starts_with("    " + recipe + ".") || line.starts_with("    return");
        return attribute ? "    " + statement : std::string();
      };
      check_lines(text, ahead, told);
    }
  }
}

TEST_CASE("no line of a wiring is dropped without a word") {
  const Folder folder;
  const Told told =
      told_of([&](const std::string& text) { return tools::import_topology(folder.write("wires.txt", text), {}); });
  // Lines that nobody knows, wherever they stand.
  for (const auto& [text, line] :
       std::vector<std::pair<std::string, std::string>>{{kWiresSlurm, "unheard=7"},
                                                        {kWiresSlurm, "an unheard line"},
                                                        {kWiresBlocks, "unheard=7"},
                                                        {kWiresTable, "unheard,s1,400 Gb/s,8,nic,7"},
                                                        {kWiresIblinkinfo, "an unheard line"},
                                                        {kWiresIbnetdiscover, "an unheard line"},
                                                        {kWiresSmi, "an unheard line"},
                                                        {kWiresNccl, "<unheard a=\"1\"/>"}}) {
    check_lines(
        text, [&unknown = line](const std::string&) { return unknown; }, told);
  }
  // Words of a line that nobody knows, and cells.
  const auto told_with = [&](std::string text, const std::string& at, const std::string& more) {
    text.replace(text.find(at), at.size(), more);
    return told(text);
  };
  for (const auto& [text, at, more] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {kWiresSlurm, "Nodes=node[01-04]", "Nodes=node[01-04] unheard=7"},
           {kWiresSlurm, "Nodes=node[01-04]", "Nodes=node[01-04] unheard"},
           {kWiresBlocks, "BlockSizes=2", "BlockSizes=2 unheard=7"},
           {kWiresTree, "  cluster_default", "  unheard: 7\n  cluster_default"},
           {kWiresTree, "    switches", "    unheard: 7\n    switches"},
           {kWiresTree, "      children", "      unheard: 7\n      children"},
           {kWiresTree, "- topology", "- unheard: 7\n- topology"},
           {kWiresTable, "rate,lanes,kind", "rate,lanes,kind,unheard"},
           {kWiresSmi, "GPU2\tSYS", "GPU2\tunheard"},
           {kWiresNccl, "<gpu dev=\"0\"", "<gpu dev=\"0\" unheard=\"1\""},
           {kWiresNccl, "<nvlink target", "<nvlink unheard=\"1\" target"}}) {
    INFO(more);
    CHECK(told_with(text, at, more).find("unheard") != std::string::npos);
  }
  // Values that differ.
  for (const auto& [text, at, more] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {kWiresSlurm, "node[01-04]", "node[01-03]"},
           {kWiresBlocks, "BlockSizes=2", "BlockSizes=4"},
           {kWiresTree, "cluster_default: true", "cluster_default: false"},
           {kWiresTree, "topology: t", "topology: u"},
           {kWiresTable, "800 Gb/s", "400 Gb/s"},
           {kWiresTable, "n1,s1,400 Gb/s", "n1,s1,200 Gb/s"},
           {kWiresIblinkinfo, "4X      25.78125", "4X      53.125"},
           {kWiresIblinkinfo, "LinkUp", "LinkDown"},
           {kWiresIbnetdiscover, "lid 7 4xHDR", "lid 7 4xEDR"},
           {kWiresIbnetdiscover, "lid 7 4xHDR", "lid 7 1xHDR"},
           {kWiresSmi, "SYS\tSYS\tPXB", "SYS\tPHB\tPXB"},
           {kWiresNccl, "count=\"18\"", "count=\"12\""},
           {kWiresNccl, "class=\"0x030200\"", "class=\"0x030000\""},
           {kWiresNccl, "tclass=\"0x068000\"", "tclass=\"0x060400\""}}) {
    INFO(more);
    const std::string after = told_with(text, at, more);
    CHECK((after != told(text) || after.find(more.substr(0, more.find_first_of("=: "))) != std::string::npos));
  }
}

TEST_CASE("no flag of any server's launch is dropped without a word") {
  for (const char* engine : {"vllm", "sglang", "trtllm"}) {
    const tools::ServerFlags& server = tools::server_flags(engine);
    const std::string start = std::string(server.line) + (server.engine == "sglang" ? " --model-path " : " ") +
                              "meta-llama/Llama-3.1-8B-Instruct";
    const Told told =
        told_of([&](const std::string& text) { return all_of_draft(tools::import_server(engine, {text}, 8, {})); });
    REQUIRE_FALSE(told(start).starts_with("refused"));
    for (const tools::ServerFlag& flag : server.flags) {
      if (flag.key == tools::ServerKey::model) continue;
      for (std::size_t from = 0; from < flag.names.size();) {
        const std::size_t end = std::min(flag.names.find(' ', from), flag.names.size());
        std::string name(flag.names.substr(from, end - from));
        if (name.ends_with("*")) name.back() = 'x';  // of all that begin so
        from = end + 1;
        const std::string dashes = name.size() < 3 ? " -" : " --";
        INFO(engine << dashes << name);
        std::vector<std::string> values{""};
        if (flag.form == tools::ServerFlag::Form::value) values = {" 2", "=4", " 0.5", " fp8", " zzz"};
        for (const std::string& value : values) {
          const std::string after = told(start + dashes + name + value);
          CHECK((after != told(start) || after.find(name) != std::string::npos));
          // Where it stands behind others, and a flag that nobody knows behind it.
          const std::string more = told(start + dashes + name + value + " --unheard 7");
          CHECK((more.starts_with("refused") || more.find("unheard") != std::string::npos));
        }
      }
    }
    for (const std::string added :
         {" --unheard", " --unheard 7", " --unheard=7", " -u unheard", " unheard", " --port 80 unheard",
          " && unheard --a 1", "\nunheard --b 2", " -- unheard", " --unheard -1"}) {
      INFO(added);
      CHECK(told(start + added).find("unheard") != std::string::npos);
    }
    INFO(told("UNHEARD=1 unheard " + start));
    CHECK(told("UNHEARD=1 unheard " + start).find("unheard") != std::string::npos);
    CHECK(told("UNHEARD=1 " + start).find("UNHEARD") != std::string::npos);
  }
}

TEST_CASE("no line of an MLPerf log is dropped without a word") {
  const Folder folder;
  const Told told = told_of(
      [&](const std::string& text) { return all_of_draft(tools::import_mllog(folder.write("run.log", text), {})); });
  std::string log;
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"submission_benchmark", "\"llama2_70b_lora\""},
                                                        {"submission_org", "\"ORG\""},
                                                        {"submission_platform", "\"1xNVIDIA DGX B200\""},
                                                        {"global_batch_size", "8"},
                                                        {"max_sequence_length", "8192"},
                                                        {"gradient_accumulation_steps", "1"},
                                                        {"tracked_stats", "{\"train_step_time\": 2}"}})
    log += fmt::format(":::MLLOG {{\"time_ms\": 1, \"key\": \"{}\", \"value\": {}, \"metadata\": {{}}}}\n", key, value);
  REQUIRE_FALSE(told(log).starts_with("refused"));
  check_lines(
      log, [](const std::string&) { return "a line that is unheard of"; }, told);
  check_lines(
      log, [](const std::string&) { return ":::MLLOG {\"key\": \"unheard\", \"value\": null}"; }, told);
  const auto with = [&](const std::string& line) { return told(log + line + "\n"); };
  CHECK(with(":::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"unheard\": 3}}").find("unheard") !=
        std::string::npos);
  CHECK(with(":::MLLOG {\"key\": \"block_start\", \"value\": 1, \"metadata\": {\"unheard\": 3}}").find("unheard") !=
        std::string::npos);
  // The same key twice, with another value.
  CHECK(with(":::MLLOG {\"key\": \"global_batch_size\", \"value\": 16}") != told(log));
}

TEST_CASE("no line of a configuration that a log prints, nor of a log of Megatron-LM's arguments, is dropped") {
  const Folder folder;
  // What MLPerf's logs print of NeMo's configuration: another value is taken, or named by its key.
  const std::string ahead =
      ":::MLLOG {\"key\": \"submission_benchmark\", \"value\": \"llama31_8b\"}\n"
      ":::MLLOG {\"key\": \"submission_platform\", \"value\": \"4xB200\"}\n"
      ":::MLLOG {\"key\": \"global_batch_size\", \"value\": 64}\n"
      ":::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"train_step_time\": 2}}\n";
  const Told told = told_of([&](const std::string& text) {
    return all_of_draft(tools::import_mllog(folder.write("run.log", ahead + text), {}));
  });
  const std::string configuration =
      " 0:   tensor_model_parallel_size: 2\n 0:   pipeline_model_parallel_size: 2\n"
      " 0:   virtual_pipeline_model_parallel_size: 4\n 0:   context_parallel_size: 1\n 0:   micro_batch_size: 1\n"
      " 0:   devices: 8\n 0:   num_nodes: 4\n 0:   recompute_num_layers: 1\n 0:   fp8_recipe: delayed\n"
      " 0:   recompute_granularity: full\n 0:   recompute_method: block\n 0:   cuda_graph_scope: attn\n";
  static const std::regex kSaid(R"re((\w+): (\w+)$)re");
  check_values(configuration, kSaid, told);
  check_lines(
      configuration, [](const std::string&) { return " 0:   unheard: 3"; }, told);
  // Arguments of a training: each changed, taken away, and one more ahead of each.
  const Told log = told_of([&](const std::string& text) {
    return all_of_draft(tools::import_megatron_log(folder.write("megatron.log", text), {}));
  });
  std::string arguments = "------------------------ arguments ------------------------\n";
  for (const char* line : {"bf16 True",
                           "eval_interval 100",
                           "eval_iters 10",
                           "ffn_hidden_size 11008",
                           "global_batch_size 64",
                           "hidden_size 4096",
                           "lr 1",
                           "make_vocab_size_divisible_by 128",
                           "micro_batch_size 1",
                           "num_attention_heads 32",
                           "num_layers 32",
                           "overlap_grad_reduce True",
                           "padded_vocab_size 32000",
                           "pipeline_model_parallel_size 2",
                           "seq_length 4096",
                           "sequence_parallel True",
                           "swiglu True",
                           "tensor_model_parallel_size 2",
                           "train_iters 100",
                           "use_distributed_optimizer True",
                           "world_size 16"}) {
    const std::string text = line;
    const std::size_t blank = text.find(' ');
    arguments +=
        fmt::format("  {} {} {}\n", text.substr(0, blank), std::string(48 - blank, '.'), text.substr(blank + 1));
  }
  arguments += "-------------------- end of arguments ---------------------\n";
  // Remarks name an argument as the flag that it is.
  const Told by_argument = [&](const std::string& text) {
    std::string said = log(text);
    std::replace(said.begin(), said.end(), '-', '_');
    return said;
  };
  static const std::regex kArgument(R"re((\w+) \.+ (\w+)$)re");
  check_values(arguments, kArgument, by_argument);
  check_lines(
      arguments, [](const std::string&) { return "  unheard " + std::string(41, '.') + " 3"; }, by_argument);
}

TEST_CASE("a file alone says what it is: one of each kind and form") {
  const Folder folder;
  const std::string flags = " --num-layers 4 --hidden-size 64 --micro-batch-size 1\n";
  for (const auto& [kind, file, text] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"nemo", "a.py", kLawNemo},
           {"nemo", "b.py", "def pretrain_recipe(nodes=1):\n    return run.Partial(fn, model=model())\n"},
           {"bridge", "c.py", kLawBridge},
           {"bridge", "d.py", "cfg = llama3_8b_pretrain_config()\ncfg.train.micro_batch_size = 1\n"},
           {"bridge", "e.yaml", "model:\n  num_layers: 4\ntrain:\n  micro_batch_size: 1\n"},
           {"topology", "f.conf", kWiresSlurm},
           {"topology", "g.conf", "switchname=a nodes=n[0-3]\n"},
           {"topology", "h.conf", kWiresBlocks},
           {"topology", "i.yaml", kWiresTree},
           {"topology", "j.csv", kWiresTable},
           {"topology", "k.txt", kWiresIblinkinfo},
           {"topology", "l.txt", kWiresIbnetdiscover},
           {"topology", "m.txt", kWiresSmi},
           {"topology", "n.xml", kWiresNccl},
           {"vllm", "o.sh", "#!/bin/bash\nvllm serve model --tensor-parallel-size 2\n"},
           {"sglang", "p.sh", "python3 -m sglang.launch_server --model-path model --tp 2\n"},
           {"trtllm", "q.sh", "trtllm-serve model --tp_size 2\n"},
           {"megatron", "r.sh", "torchrun pretrain_gpt.py" + flags},
           {"megatron", "s.sh", "deepspeed pretrain_gpt.py --zero-stage 1" + flags},
           {"megatron", "log.txt", "--- arguments ---\n  num_layers ..... 4\n--- end of arguments ---\n"},
           {"nemo", "w.sh", "#!/bin/bash\nnemo llm pretrain --factory llama3_8b\n"},
           {"megatron", "x.sh", "megatron sft --model Qwen/Qwen3-8B\n"},
           {"torchtitan", "y.py", kLawTitan},
           {"graph", "t.json", "{\"parameters\": {}, \"nodes\": [{\"target\": \"aten.add.Tensor\"}]}\n"},
           {"accelerate", "u.yaml", "distributed_type: FSDP\nnum_processes: 8\n"},
           {"mllog", "v.log", "0: :::MLLOG {\"key\": \"seed\", \"value\": 1}\n"}}) {
    INFO(file);
    CHECK(tools::import_kind(folder.write(file, text)) == kind);
  }
}
