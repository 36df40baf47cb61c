// Are launch scripts read as a shell reads them? What each script would run follows from the shell's own rules; the
// scripts are small ones of the kinds that people have.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"
#include "tools/import/import.h"
#include "tools/import/serving_flags.h"
#include "tools/import/shell_run.h"

using namespace orrery;
using tests::check_refused;
using tests::Folder;

namespace {

/// The words of the commands that a script would run, on its only way.
std::string runs(const std::string& script, const tools::ShellGiven& given = {}) {
  const tools::ShellRuns all = tools::run_shell(script, "folder/run.sh", {}, given);
  REQUIRE(all.ways.size() == 1);
  std::string text;
  for (const tools::ShellRun& run : all.ways[0].runs) {
    for (const tools::ShellField& word : run.words) text += "<" + word.text + ">";
    text += "\n";
  }
  return text;
}

std::size_t ways(const std::string& script) { return tools::run_shell(script, "run.sh", {}, {}).ways.size(); }

const std::string kTraining =
    "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads "
    "32 "
    "--seq-length 4096 --vocab-size 32000 --tensor-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 128 "
    "--bf16 ";

tools::Draft draft_of(const std::string& script, const tools::ShellGiven& given = {},
                      const std::vector<std::string>& sets = {}) {
  return tools::import_megatron(tools::read_launch_line(script, "launch.sh", given), sets);
}
std::string value(const tools::Draft& draft, const std::string& key) {
  const sim::Settings* found = draft.document().find_path(key);
  return found == nullptr ? "none" : found->text();
}
std::string refusal(const std::string& script) {
  try {
    draft_of(script);
  } catch (const sim::UserError& error) {
    return error.what();
  }
  return "taken";
}
bool said(const tools::Draft& draft, const std::string& words) {
  std::string all;
  for (const std::string& line : draft.ignored()) all += line + "\n";
  for (const std::string& line : draft.assumed()) all += line + "\n";
  return all.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("expansions of variables, arrays and sums") {
  CHECK(runs("A=1; B=\"$A 2\"; x $B \"$B\" '$B'") == "<x><1><2><1 2><$B>\n");
  CHECK(runs("x ${A:-\"1\"} ${B:=4} $B ${B:+5} ${A-6}") == "<x><1><4><4><5><6>\n");
  CHECK(runs("A=(a 'b c'); A+=(d); x ${#A[@]} \"${A[@]}\" ${A[1]} ${A[-1]}") == "<x><3><a><b c><d><b><c><d>\n");
  CHECK(runs("A=model-8B.sh; x ${A%.sh} ${A#*-} ${A##*-} ${A/8B/70B} ${A^^} ${A:0:5} ${#A}") ==
        "<x><model-8B><8B.sh><8B.sh><model-70B.sh><MODEL-8B.SH><model><11>\n");
  CHECK(runs("N=4; G=8; x $((N * G)) $(($N*$G/2)) $(( N > 3 ? 10 : 20 )) $((2**5))") == "<x><32><16><10><32>\n");
  CHECK(runs("declare -A S; S[8B]=32; S[70B]=80; M=70B; x ${S[$M]}") == "<x><80>\n");
  CHECK(runs("A=B; B=7; x ${!A}") == "<x><7>\n");
  CHECK(runs("A=B; B=7; C=D; x ${!A:-3} ${!C:-3} ${!A:+4}") == "<x><7><3><4>\n");
  CHECK(runs("A=1; A+=2; x $A; unset A; x ${A:-3}") == "<x><12>\n<x><3>\n");
  CHECK(runs("x ${00} ${000}") == runs("x $0 ${0}"));
  CHECK(runs("x {1..3} a{b,c}") == "<x><1><2><3><ab><ac>\n");
  CHECK(runs("x one\\\n  two \"a\\\nb\"") == "<x><one><two><ab>\n");
}

TEST_CASE("commands whose output follows from their words are known, others stay as they are written") {
  CHECK(runs("D=\"$( cd \"$( dirname \"$0\" )\" && pwd )\"; x $D `basename /a/b.sh .sh` $(seq 2 4) $(expr 3 \\* 4)") ==
        "<x><folder><b><2><3><4><12>\n");
  CHECK(runs("D=$(cd -- \"$(dirname -- \"${BASH_SOURCE[0]}\")\" &>/dev/null && pwd); x $D") == "<x><folder>\n");
  CHECK(runs("A=(0 1 1); printf -v B '[%s]' \"$(IFS=', '; echo \"${A[*]}\")\"; x $B") == "<x><[0,1,1]>\n");
  CHECK(runs("x $(printf '%s-%d ' a 1 b 2) $(printf '%%\\n')") == "<x><a-1><b-2><%>\n");
  CHECK(runs("x $(echo \"6*7\" | bc)") == "<x><42>\n");
  CHECK(runs("N=$(nvidia-smi -L | wc -l); x --n $N") == "<x><--n><$(nvidia-smi -L | wc -l)>\n");
  CHECK(runs("ARGS=$(cat <<END\n--a 1\n--b 2\nEND\n)\nx $ARGS") == "<x><--a><1><--b><2>\n");
  CHECK(runs("f() { local n=$1; echo $((n * 2)); }\nx $(f 21)") == "<x><42>\n");
}

TEST_CASE("conditions, loops and functions") {
  CHECK(runs("A=8B\nif [ $A = 7B ]; then L=1; elif [[ $A == 8? && -n \"$A\" ]]; then L=32; else L=9; fi\nx $L") ==
        "<x><32>\n");
  CHECK(runs("case 70B in 8B) L=32;; 7*|13B) L=80 ;; *) L=1;; esac; x $L") == "<x><80>\n");
  CHECK(runs("for i in 1 2; do [ $i -eq 2 ] && continue; x $i; done") == "<x><1>\n");
  CHECK(runs("i=0; while (( i < 3 )); do i=$((i+1)); done; x $i; for ((j=0;j<2;j++)); do x $j; done") ==
        "<x><3>\n<x><0>\n<x><1>\n");
  CHECK(
      runs("set -- --seq 4; while [[ $# -gt 0 ]]; do case $1 in --seq) S=$2; shift 2;; *) shift;; esac; done; x $S") ==
      "<x><4>\n");
  CHECK(runs("run() { x \"$@\"; }\nrun a 'b c'\n(A=1); x ${A:-none}") == "<x><a><b c>\n<x><none>\n");
  CHECK(runs("[[ ! -z x ]] || exit 1; x; exit 0; y") == "<x>\n");
  CHECK(runs("bash -c \"x 1\"; eval 'x 2'; cat > job.sh <<'E'\nx --flag $3\nE\n") ==
        "<x><1>\n<x><2>\n<x><--flag><$3>\n");
}

TEST_CASE("files beside a script are read in, and what is not there is said") {
  tools::ShellGiven given;
  given.read = [](const std::string& path) -> std::optional<std::string> {
    if (path == "folder/common.sh") return "TP=${TP:-4}\nDIR=$(dirname ${BASH_SOURCE[0]})\n";
    if (path == "folder/train.sh") return "x $TP $1\n";
    return std::nullopt;
  };
  CHECK(runs("source $(dirname $0)/common.sh; . ./none.sh; x $TP $DIR", given) == "<x><4><folder>\n");
  CHECK(runs("export TP=2; bash train.sh 7", given) == "<x><2><7>\n");
  CHECK(tools::run_shell(". ./none.sh", "a.sh", {}, given).remarks.size() == 1);
}

TEST_CASE("what no word decides is followed on every way, and ways that come to the same are one") {
  CHECK(ways("if grep -q a b; then A=1; else A=2; fi; x $A") == 2);
  CHECK(ways("if grep -q a b; then echo yes; fi; x") == 1);
  CHECK(ways("if [ $1 = a ]; then A=1; else A=1; fi; x $A") == 1);
  CHECK(ways("if [ $# -lt 2 ]; then echo usage; exit 1; fi; x $1") == 1);  // one that ends ahead of any command
  std::string many;
  for (int i = 0; i < 12; ++i) many += "if [ $1 = " + std::to_string(i) + " ]; then A" + std::to_string(i) + "=1; fi\n";
  CHECK_THROWS_AS(tools::run_shell(many + "x", "run.sh", {}, {}), sim::UserError);
}

TEST_CASE("what is no script is refused, and what never ends does") {
  for (const char* script :
       {"x \"a", "x 'a", "x $(a", "x ${A", "if true; then x", "case a in b) x", "f() {", "((1", "x )", "a=(1"})
    CHECK_THROWS_AS(tools::run_shell(script, "run.sh", {}, {}), sim::UserError);
  CHECK_THROWS_AS(tools::run_shell("f() { f; }; f", "run.sh", {}, {}), sim::UserError);
  CHECK(runs("while true; do x; sleep 1; done") == "<x>\n");  // once for all
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "$(";
  CHECK_THROWS_AS(tools::run_shell("x " + deep, "run.sh", {}, {}), sim::UserError);
}

TEST_CASE("a launch takes the branches that its script takes") {
  const std::string if_fp8 =
      "if [ $FP8 -eq 1 ]; then\n  EXTRA=\"--fp8-format hybrid\"\nelse\n  EXTRA=\"\"\nfi\n" + kTraining + "$EXTRA";
  CHECK(value(draft_of("FP8=0\n" + if_fp8), "precision.matmul") == "bf16");
  CHECK(value(draft_of("FP8=1\n" + if_fp8), "precision.matmul") == "fp8");
  const std::string if_sp = "S=''\nif [ $SP = true ]; then\n  S=--sequence-parallel\nfi\n" + kTraining + "$S";
  CHECK(value(draft_of("SP=false\n" + if_sp), "parallelism.sequence_parallel") == "false");
  CHECK(value(draft_of("SP=true\n" + if_sp), "parallelism.sequence_parallel") == "true");
  CHECK(value(draft_of("NNODES=${SLURM_NNODES:-\"4\"}\nexport R=${R:-\"${MODEL}-bench\"}\n" + kTraining),
              "cluster.gpus") == "32");
}

TEST_CASE("a condition that is not known is asked about where it matters, by its line") {
  const std::string differs = "X=1\nif [ $MODE = fp8 ]; then E='--fp8-format hybrid'; fi\n" + kTraining + "$E";
  const std::string question = refusal(differs);
  CHECK(question.find("launch.sh:2:4") != std::string::npos);
  CHECK(question.find("--env MODE=VALUE") != std::string::npos);
  tools::ShellGiven given;
  given.environment["MODE"] = "fp8";
  CHECK(value(draft_of(differs, given), "precision.matmul") == "fp8");
  given.environment["MODE"] = "bf16";
  CHECK(value(draft_of(differs, given), "precision.matmul") == "bf16");
  // The status of a command that is not run: what the user says of the variable holds.
  const std::string status =
      "which srun\nBATCH=$((1-$?))\nif [[ $BATCH -eq 0 ]]; then E='--fp8-format hybrid'; fi\n" + kTraining + "$E";
  CHECK(refusal(status).find("--env BATCH=VALUE") != std::string::npos);
  given.environment = {{"BATCH", "0"}};
  CHECK(value(draft_of(status, given), "precision.matmul") == "fp8");
  given.environment = {{"BATCH", "1"}};
  CHECK(value(draft_of(status, given), "precision.matmul") == "bf16");
  // Where the ways differ in what changes no work there is nothing to ask.
  const std::string alike =
      "if [[ -z \"$1\" ]]; then\n  D=(--mock-data --tokenizer-type NullTokenizer)\nelse\n"
      "  D=(--tokenizer-type HuggingFaceTokenizer --tokenizer-model $1)\nfi\n" +
      kTraining + "${D[@]}";
  CHECK(value(draft_of(alike), "cluster.gpus") == "32");
  // Whether a variable is set that nobody sets: as in a bare environment, and that is said first.
  const tools::Draft bare = draft_of("if [ -n \"$USE_FP8\" ]; then E='--fp8-format hybrid'; fi\n" + kTraining + "$E");
  CHECK(value(bare, "precision.matmul") == "bf16");
  CHECK(bare.ignored().at(0).find("line 1: [ -n \"$USE_FP8\" ]") != std::string::npos);
}

TEST_CASE("arguments of a script: asked for, given behind --, or stood for by a key") {
  const Folder folder;
  const std::string flags = kTraining.substr(0, kTraining.find("--seq-length")) + "--seq-length $SEQ " +
                            kTraining.substr(kTraining.find("--vocab-size"));
  const std::string file = folder.write("run.sh", "SEQ=$1\n" + flags + "\n");
  check_refused(tests::orrery({"import", "megatron", file}),
                {"run.sh:2:", "--seq-length", "$1", "--set model.seq=VALUE", "-- ARGUMENT"});
  CHECK(tests::orrery({"import", "megatron", file, "--", "2048"}).out.find("seq: 2048") != std::string::npos);
  CHECK(tests::orrery({"import", "megatron", file, "--set", "model.seq=1024"}).out.find("seq: 1024") !=
        std::string::npos);
  CHECK(tests::orrery({"import", file, "--set", "model.seq=1024"}).out.find("seq: 1024") != std::string::npos);
}

TEST_CASE("what a script needs and was not given is asked for by the names that it gives its arguments") {
  const Folder folder;
  const std::string flags = kTraining.substr(0, kTraining.find("--seq-length")) + "--seq-length $SEQ " +
                            kTraining.substr(kTraining.find("--vocab-size"));
  const std::string file = folder.write("run.sh", "SEQ=$1\nexport OUT=\"${3}\"\n" + flags + "\n");
  check_refused(tests::orrery({"import", "megatron", file}), {"run.sh", "$1", "0 arguments of the 3", "-- SEQ 2 OUT"});
  // A word of the script is no file of ours, even where it is the folder that the scenario is written to.
  const std::string out = file + ".yaml";
  CHECK(tests::orrery({"import", "megatron", file, "--out", out, "--", "2048", "./", file.substr(0, file.rfind('/'))})
            .status == 0);
}

TEST_CASE("patterns of a launch: hybrids by letters, experts in the last of every so many layers, one expert alone") {
  const std::string mixture = " --num-experts 8 --moe-router-topk 2 --sequence-parallel ";
  const std::string layers = kTraining.substr(kTraining.find("--num-layers") + 13);
  const std::int64_t count = std::stoll(layers);
  const std::string half = std::to_string(count / 2);
  CHECK(value(draft_of(kTraining + mixture + "--moe-layer-freq '([0,1]*" + half + ")'"), "model.moe_every") == "2");
  const tools::Draft dense = draft_of(kTraining + " --num-experts 1 --moe-router-topk 1");
  CHECK(value(dense, "model.kind") == "gpt");
  CHECK(said(dense, "--num-experts"));
  const tools::Draft hybrid = draft_of(
      "torchrun --nproc_per_node 8 pretrain_mamba.py --hybrid-layer-pattern 'M-M*-|M-/*-' --hidden-size 4096 "
      "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --ffn-hidden-size 21504 --squared-relu "
      "--mamba-num-heads 128 --seq-length 4096 --micro-batch-size 1 --global-batch-size 8 --bf16 --normalization "
      "rmsnorm --tokenizer-type HuggingFaceTokenizer --tokenizer-model nobody/knows");
  CHECK(value(hybrid, "model.blocks") == "M F M A F M F");
  CHECK(value(hybrid, "model.mtp_block") == "A+F");
  CHECK(value(hybrid, "model.kv_heads") == "8");
  CHECK(value(hybrid, "model.mixers.M.heads") == "128");
  CHECK(value(hybrid, "model.ffn_hidden") == "21504");
  CHECK(value(hybrid, "model.norm") == "rms_norm");
  CHECK_THROWS_WITH(
      draft_of("torchrun --nproc_per_node 8 pretrain_mamba.py --hybrid-layer-pattern 'M*/M/E' --hidden-size "
               "4096 --num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --bf16 --vocab-size 9"),
      ContainsSubstring("expected the same blocks for each"));
  CHECK(hybrid.ignored().at(0).find("model.vocab: 128256 stands in") != std::string::npos);
}

TEST_CASE("of several trainings one is taken and the others named; a launcher around it says the nodes") {
  const std::string model = kTraining.substr(kTraining.find("pretrain_gpt.py"));
  const tools::Draft two = draft_of("for TP in 1 2; do\ntorchrun --nnodes 4 --nproc_per_node 8 " + model +
                                    " --context-parallel-size $TP\ndone\n");
  CHECK(said(two, "another training is started there"));
  CHECK(value(draft_of("srun -N 4 --ntasks-per-node=8 bash -c \"python " + model + "\""), "cluster.gpus") == "32");
  const tools::Draft last = draft_of(kTraining + " --micro-batch-size 2");
  CHECK(value(last, "batch.micro") == "2");
  CHECK(said(last, "of the same flag the last holds"));
  CHECK(said(draft_of(kTraining + "$EXTRA_ARGS"), "$EXTRA_ARGS"));
}

TEST_CASE("Megatron-DeepSpeed's options: stages, experts, ranks of a sequence, GPUs that the launcher counts") {
  const std::string sizes =
      "deepspeed pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
      "--vocab-size 50304 --micro-batch-size 4 --global-batch-size 256 --fp16 --deepspeed --deepspeed_config ds.json ";
  const tools::Draft dense = draft_of(sizes + "--zero-stage 2 --tensor-model-parallel-size 2");
  CHECK(value(dense, "cluster.gpus") == "8");  // of the node, as deepspeed starts one process for each
  CHECK(value(dense, "parallelism.sharding") == "gradients");
  CHECK(value(dense, "software") == "megatron-deepspeed-2022");
  CHECK(said(draft_of(sizes), "ZeRO's stage stands in ds.json, which is not read"));
  // Its own defaults: experts in every second layer, one for a token, whole on their rank (megatron/arguments.py).
  const tools::Draft mixture =
      draft_of(sizes + "--zero-stage 1 --num-experts 16 --moe-expert-parallel-size 8 --tensor-model-parallel-size 1");
  CHECK(value(mixture, "model.moe_every") == "2");
  CHECK(value(mixture, "model.top_k") == "1");
  CHECK(value(mixture, "parallelism.expert") == "8");
  CHECK(value(mixture, "parallelism.expert_tensor") == "1");
  CHECK(value(mixture, "experts.capacity_factor") == "1");
  CHECK(said(draft_of(sizes + "--num-experts 32 32 64 --moe-expert-parallel-size 8"), "--num-experts 32 32 64"));
  const tools::Draft ulysses = draft_of(sizes + "--zero-stage 3 --ds-sequence-parallel-size 8");
  CHECK(value(ulysses, "parallelism.context") == "8");
  CHECK(value(ulysses, "parallelism.context_method") == "all_to_all");
  CHECK_NOTHROW(scenarios::load_scenario(ulysses.document()));
  CHECK(said(draft_of(sizes + "--zero-stage 0 --kd"), "a teacher's forward pass"));
  // The pipeline engine parts the states of bf16 without ZeRO; the usual engine, and fp16, do not.
  std::string wide = sizes;
  wide.replace(wide.find("--fp16"), 6, "--bf16");
  CHECK(value(draft_of(wide + "--zero-stage 0"), "parallelism.sharding") == "optimizer");
  CHECK(value(draft_of(wide + "--zero-stage 0 --no-pipeline-parallel"), "parallelism.sharding") == "none");
  CHECK(value(draft_of(sizes + "--zero-stage 0"), "parallelism.sharding") == "none");
}

TEST_CASE("Pai-Megatron-Patch's names: tokenizers with tokens beyond theirs, sizes, optimizers with the host") {
  const std::string sizes =
      "torchrun --nproc_per_node 8 pretrain.py --num-layers 24 --hidden-size 896 --num-attention-heads 14 --seq-length "
      "2048 --micro-batch-size 1 --global-batch-size 16 --bf16 --swiglu --intermediate-size 4864 ";
  const tools::Draft qwen = draft_of(sizes + "--patch-tokenizer-type Qwen2Tokenizer --extra-vocab-size 293");
  CHECK(value(qwen, "model.vocab") == "151936");  // 151643 tokens, as config.json of Qwen2 0.5B has them padded
  CHECK(value(qwen, "model.ffn_hidden") == "4864");
  const tools::Draft host = draft_of(sizes + "--optimizer cpu-adam --position-embedding-type rotary");
  CHECK(value(host, "offload.optimizer") == "true");
  CHECK(value(host, "model.positions") == "rotary");
  CHECK(said(draft_of(sizes + "--vision-tower clip"), "vision encoder"));
  CHECK(value(draft_of(sizes + "--train-samples 146_484_375"), "training.tokens") == "300000000000");  // x 2048
}

TEST_CASE("what a script leaves to be filled in takes no flag that follows it with it") {
  CHECK(runs("run --save <PATH TO CHECKPOINTS DIRECTORY> --fp16\n") ==
        "<run><--save><<PATH TO CHECKPOINTS DIRECTORY>><--fp16>\n");
  CHECK(runs("run <in >out\nrun <in>out\nrun 2>err <in\n") == "<run>\n<run>\n<run>\n");  // redirections
  const std::string nested =
      "options=\"--tensorboard-dir <TENSORBOARD DIRECTORY> --fp16 --activations-checkpoint-method uniform\"\n"
      "sh -c \"" +
      std::string(kTraining).replace(kTraining.find("--bf16"), 6, "") + "$options\"\n";
  CHECK(value(draft_of(nested), "precision.matmul") == "fp16");
  CHECK(value(draft_of(nested), "recompute") == "full");
}

TEST_CASE("older names of recomputation, no precision at all: what Megatron-LM does is taken or said") {
  const std::string plain = std::string(kTraining).replace(kTraining.find("--bf16"), 6, "");
  const tools::Draft wide =
      draft_of(plain + "--activations-checkpoint-method block --activations-checkpoint-num-layers 3\n");
  CHECK(value(wide, "precision.matmul") == "fp32");
  CHECK(value(wide, "precision.gradients") == "fp32");
  CHECK(value(wide, "recompute.kind") == "full");
  CHECK(value(wide, "recompute.layers") == "3");
  CHECK(value(draft_of(plain + "--fp8-format hybrid\n"), "precision.activations") == "bf16");
  CHECK(value(draft_of(kTraining + "--pad-vocab-size-to 250880\n"), "model.vocab") == "250880");
}

TEST_CASE("the configuration of DeepSpeed that a script writes says the stage") {
  const auto script = [](const std::string& stage, const std::string& more, const std::string& flags) {
    return "ZERO=" + stage + "\ncat <<EOT > ds.json\n{\n  \"train_micro_batch_size_per_gpu\": 1,\n" + more +
           "  \"zero_optimization\": {\"stage\": $ZERO}\n}\nEOT\n" + kTraining +
           "--deepspeed --deepspeed_config ds.json " + flags + "\n";
  };
  CHECK(value(draft_of(script("2", "", "")), "parallelism.sharding") == "gradients");
  CHECK(value(draft_of(script("1", "", "--zero-stage 1")), "parallelism.sharding") == "optimizer");
  const tools::Draft apart = draft_of(script("3", "  \"fp16\": {\"enabled\": true},\n", "--zero-stage 1"));
  CHECK(value(apart, "parallelism.sharding") == "parameters");
  const auto told = [&](const std::string& words) {
    return std::any_of(apart.ignored().begin(), apart.ignored().end(),
                       [&](const std::string& each) { return each.find(words) != std::string::npos; });
  };
  CHECK(told("--zero-stage 1: DeepSpeed's configuration in the script has stage 3"));
  CHECK(told("precision: bf16 is taken, as the launch says"));
  // Of a variable that nobody assigns the file holds what is no number: the line's own flag stands.
  CHECK(value(draft_of(script("$NOBODY", "", "--zero-stage 2")), "parallelism.sharding") == "gradients");
  CHECK(draft_of(script("2", "  \"wall_clock_breakdown\": false,\n", "")).ignored().size() >
        draft_of(script("2", "", "")).ignored().size());
}

TEST_CASE("a script that waits for its server and measures it is followed up to the server's start") {
  const Folder folder;
  const std::string serves = "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 &\n";
  const auto imported = [&](const std::string& more) {
    return tools::import_server("vllm", {folder.write("serve.sh", serves + more)}, 8, {}, {});
  };
  const tools::Draft followed = imported("curl localhost\n"), cut = imported("wait_for() { wait_for; }\nwait_for\n");
  CHECK(cut.values() == followed.values());
  CHECK(std::any_of(cut.ignored().begin(), cut.ignored().end(), [](const std::string& each) {
    return each.find("what follows the start of the server") != std::string::npos;
  }));
  // Of a launch that never comes the cause stays the one that it had.
  CHECK_THROWS_WITH(tools::import_server("vllm", {folder.write("loop.sh", "f() { f; }\nf\n")}, 8, {}, {}),
                    ContainsSubstring("calls deeper than 32"));
}

TEST_CASE("too many ways are asked about by the script's arguments and by its variables, each as a user gives them") {
  const Folder folder;
  std::string script = "A=$1\nB=$2\n";
  for (const char* name : {"A", "B", "C", "D", "E", "F", "G", "H"})
    script += std::string("if [ $") + name + " = on ]; then O+=\" --flag-" + name + "\"; fi\n";
  const std::string file = folder.write("many.sh", script + kTraining + "$O\n");
  check_refused(tests::orrery({"import", "megatron", file}), {"many.sh:1", "$1", "0 arguments of the 2", "-- A B"});
  const std::string alone = refusal(script + kTraining + "$O\n");
  INFO(alone);
  CHECK(alone.find("behind the file for $1, $2: -- ARGUMENT... and --env NAME=VALUE for C, D") != std::string::npos);
}

TEST_CASE("the board that a script's queue is asked for is the device, and so is that of its name") {
  const std::string four = "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gres=gpu:4\n";
  CHECK(value(draft_of(four + "#SBATCH -C v100-32g\n" + kTraining), "cluster.device") == "v100-sxm-32gb");
  CHECK(value(draft_of(four + "#SBATCH --constraint=a100\n" + kTraining), "cluster.device") == "a100-sxm-80gb");
  const std::string typed = "#!/bin/bash\n#SBATCH -N 4\n#SBATCH --gres=gpu:h200:8\n";
  CHECK(value(draft_of(typed + kTraining), "cluster.device") == "h200-sxm-141gb");
  const tools::Draft open = draft_of(four + "#SBATCH --constraint=nvme\n" + kTraining);
  CHECK(value(open, "cluster.device") == "h100-sxm-80gb");
  CHECK(said(open, "#SBATCH asks for nvme"));
  const tools::Draft named =
      tools::import_megatron(tools::read_launch_line(kTraining, "train_llama_b200_fp8.sh", {}), {});
  CHECK(value(named, "cluster.device") == "b200-sxm-180gb");
}

TEST_CASE("variables of the environment that a step hangs on are taken, or named") {
  CHECK(value(draft_of("export NVTE_FLASH_ATTN=0\nexport NVTE_FUSED_ATTN=0\n" + kTraining), "attention") == "unfused");
  CHECK(value(draft_of("export NVTE_FUSED_ATTN=0\n" + kTraining), "attention") == "none");
  CHECK(said(draft_of("export NVTE_FUSED_ATTN=0\n" + kTraining), "NVTE_FUSED_ATTN=0"));
  CHECK(said(draft_of("export NCCL_P2P_DISABLE=1\n" + kTraining), "NCCL_P2P_DISABLE=1"));
  const tools::Draft blocking = draft_of("export CUDA_LAUNCH_BLOCKING=1\n" + kTraining);
  CHECK(blocking.document().find_path("software.features")->items()[0].text() == "blocking-launches");
  CHECK(blocking.ignored().front().starts_with("CUDA_LAUNCH_BLOCKING=1"));
}

TEST_CASE("a launch that generates answers is told so, and its training alone is read") {
  const std::string slime = kTraining + "--rollout-batch-size 32 --num-rollout 100 ";
  const tools::Draft draft = draft_of(slime);
  CHECK(draft.ignored().front().find("reinforcement learning") != std::string::npos);
  std::string open = slime;
  open.erase(open.find("--seq-length 4096"), std::string("--seq-length 4096").size());
  const std::string asked = refusal(open);
  INFO(asked);
  CHECK(asked.find("reinforcement learning") != std::string::npos);
  CHECK(asked.find("--set model.seq=N") != std::string::npos);
  CHECK(value(draft_of(open, {}, {"model.seq=2048"}), "batch.global") == "128");
}

TEST_CASE("the length of an encoder's sequences stands for that of a decoder's which says none") {
  std::string other = kTraining;
  other.replace(other.find("--seq-length"), 12, "--encoder-seq-length");
  CHECK(value(draft_of(other), "model.seq") == "4096");
}

TEST_CASE("a log of Megatron-LM's says its arguments, and the time of a step") {
  const Folder folder;
  std::string log =
      "[default0]:using world size: 32, data-parallel size: 4\n"
      "[default0]:------------------------ arguments ------------------------\n";
  for (const auto& [name, text] :
       std::vector<std::pair<std::string, std::string>>{{"add_bias_linear", "False"},
                                                        {"attention_backend", "AttnBackend.flash"},
                                                        {"bf16", "True"},
                                                        {"data_parallel_size", "4"},
                                                        {"encoder_seq_length", "4096"},
                                                        {"ffn_hidden_size", "14336"},
                                                        {"fp8", "hybrid"},
                                                        {"global_batch_size", "128"},
                                                        {"group_query_attention", "True"},
                                                        {"hidden_size", "4096"},
                                                        {"lr", "0.0003"},
                                                        {"micro_batch_size", "1"},
                                                        {"moe_router_topk", "2"},
                                                        {"normalization", "RMSNorm"},
                                                        {"num_attention_heads", "32"},
                                                        {"num_experts", "None"},
                                                        {"num_layers", "32"},
                                                        {"num_query_groups", "8"},
                                                        {"overlap_grad_reduce", "True"},
                                                        {"padded_vocab_size", "128256"},
                                                        {"pipeline_model_parallel_size", "2"},
                                                        {"position_embedding_type", "rope"},
                                                        {"recompute_modules", "['core_attn']"},
                                                        {"recompute_granularity", "selective"},
                                                        {"seq_length", "4096"},
                                                        {"sequence_parallel", "True"},
                                                        {"swiglu", "True"},
                                                        {"tensor_model_parallel_size", "4"},
                                                        {"untie_embeddings_and_output_weights", "True"},
                                                        {"use_distributed_optimizer", "True"},
                                                        {"world_size", "32"}})
    log += fmt::format("[default0]:  {} {} {}\n", name, std::string(48 - name.size(), '.'), text);
  log += "[default0]:-------------------- end of arguments ---------------------\n";
  for (const double ms : {9000.0, 2000.0, 1500.0, 1000.0, 1010.0, 1020.0, 1030.0})
    log += fmt::format(" iteration  1/ 100 | elapsed time per iteration (ms): {} | learning rate: 1.0E-4 |\n", ms);
  const std::string file = folder.write("run.log", log);
  const tools::Draft draft = tools::import_megatron_log(file, {});
  const workloads::Job job = scenarios::load_scenario(draft.document()).job;
  CHECK(job.model.layers == 32);
  CHECK(value(draft, "model.kv_heads") == "8");
  CHECK(value(draft, "model.vocab") == "128256");
  CHECK(value(draft, "model.biases") == "none");
  CHECK(value(draft, "precision.matmul") == "fp8");
  CHECK(value(draft, "cluster.gpus") == "32");
  CHECK(job.parallelism.data == 4);  // 32 / (4 x 2)
  CHECK(job.parallelism.sequence_parallel);
  CHECK(job.parallelism.sharding == workloads::Sharding::optimizer);
  // Of seven iterations the first three are left out: the median of 1000, 1010, 1020 and 1030, the upper of the two.
  CHECK(value(draft, "measured.iteration_s") == "1.02");
  CHECK(tools::import_kind(file) == "megatron");
  CHECK(tests::orrery({"import", file}).status == 0);
}

TEST_CASE("launches of other trainers are imported where they can be, and else told what imports them") {
  const Folder folder;
  // SWIFT's options are Megatron-LM's with a value each, around a model that is named.
  const std::string swift = folder.write(
      "swift.sh",
      "NPROC_PER_NODE=8 \\\nmegatron sft --load Qwen3-30B-A3B-Base-mcore --tensor_model_parallel_size 2 "
      "--expert_model_parallel_size 4 --micro_batch_size 1 --global_batch_size 16 --recompute_granularity full "
      "--recompute_method uniform --recompute_num_layers 1 --max_length 8192 --sequence_parallel true --packing "
      "false\n");
  const tests::Outcome taken = tests::orrery({"import", swift});
  INFO(taken.err);
  CHECK(taken.status == 0);
  for (const char* line : {"inherits: qwen3-30b-a3b", "seq: 8192", "tensor: 2", "expert: 4", "gpus: 8",
                           "sequence_parallel: true", "global: 16"})
    CHECK(taken.out.find(line) != std::string::npos);
  // NeMo's command names a factory and overrides.
  const std::string nemo = folder.write("nemo.sh",
                                        "#!/bin/bash\nnemo llm pretrain --factory \"llama3_8b(num_nodes=2)\" "
                                        "data.global_batch_size=64 trainer.strategy.tensor_model_parallel_size=2\n");
  const tests::Outcome recipe = tests::orrery({"import", nemo});
  INFO(recipe.err);
  CHECK(recipe.status == 0);
  for (const char* line : {"inherits: llama3-8b", "gpus: 16", "global: 64", "tensor: 2"})
    CHECK(recipe.out.find(line) != std::string::npos);
  const auto told = [&](const std::string& command, const char* what) {
    const std::string file = folder.write("run.sh", "#!/bin/bash\n" + command + "\n");
    INFO(command);
    check_refused(tests::orrery({"import", file}), {what});
    check_refused(tests::orrery({"import", "megatron", file}), {what});
  };
  told("torchrun --nproc_per_node=8 -m torchtitan.train --module llama3 --config llama3_8b",
       "import torchtitan CONFIG");
  told("primus-cli direct -- train pretrain --config exp.yaml", "import primus EXPERIMENT.yaml");
  told("accelerate launch --config_file fsdp.yaml train.py --bf16", "import accelerate CONFIG.yaml");
  told("deepspeed --num_gpus 8 train.py --model_name_or_path a/b --deepspeed ds.json", "import deepspeed FILE");
  told("python3 -m openrlhf.cli.train_ppo_ray --pretrain a/b", "section `rl:`");
  told("tune run full_finetune_distributed --config llama3_1/8B_full", "torchtune");
}
