// A hundred mistakes that people make, each answered by one line that names the remedy: options and values mistyped,
// words of other programs, ranges that run backwards, files of other kinds, names of what ships as they are remembered.
#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tests/tools/refused.h"

using namespace orrery;

namespace {

struct Mistake {
  const char* words;   // parted by spaces; @NAME is a file of the folder below
  const char* remedy;  // what the one line says
};

constexpr Mistake kMistakes[] = {
    // commands and options
    {"rn @small.yaml", "did you mean 'run'?"},
    {"simulate @small.yaml", "the commands are run, "},
    {"cost eos", "--tokens 2e12 --price 2.5"},
    {"memory eos", "`orrery run SCENARIO`"},
    {"explain eos", "`orrery run SCENARIO --explain`"},
    {"sweep --model llama3.1-8b --device h100 --gpus 64 --vary batch.micro=1,2", "--out FILE writes one"},
    {"flops --model llama3.1-8b", "--out FILE writes one"},
    {"search --model llama3.1-70b --gpus 64", "as in --device h100; orrery list devices"},
    {"topology h100", "got a device (h100-sxm-80gb), expected a fabric or a scenario"},
    {"run", "--model llama3.1-70b --device h100 --gpus 512"},
    {"run @small.yaml @small.yaml", "orrery run --help"},
    {"run @small.yaml --sett a=b", "did you mean --set?"},
    {"run @small.yaml --set", "expected KEY=VALUE"},
    {"run @small.yaml --json", "expected FILE"},
    {"run @small.yaml --tp 2", "--set parallelism.tensor=2"},
    {"run @small.yaml --tensor 8", "--set parallelism.tensor=8"},
    {"run @small.yaml --ranks all", "expected one of folded, full"},
    {"run @small.yaml --json /nonexistent/x.json", "give a path in a folder that can be written"},
    {"run @small.yaml --trace .", "give a path in a folder that can be written"},
    {"run @small.yaml --gpus 8", "--set changes a scenario"},
    {"run @small.yaml --batch-tokens 1e6", "--set batch.global=N"},
    {"advise @small.yaml --softwar x", "did you mean --software?"},
    {"advise @small.yaml --top 0", "expected a whole number from 1 to 1000"},
    // keys and values
    {"run @small.yaml --set tensor", "expected key.path=value"},
    {"run @small.yaml --set cluster.gpus=2k", "write 2e3 for 2k"},
    {"run @small.yaml --set training.tokens=1.5T", "write 1.5e12 for 1.5T"},
    {"run @small.yaml --set model.vocab=32_000", "write 32000 for 32_000"},
    {"run --model llama3.1-70b --device h100 --gpus 64 --tokens 2T", "write 2e12 for 2T"},
    {"sweep qwen3-32b-grpo-256h100-async --vary rl.prompts=64,128", "orrery rl SCENARIO --set KEY=VALUE"},
    {"run megascale-gpt3-175b --set parallelism.schedule=1f1b", "or virtual_pipeline: 1 beside it"},
    {"run @small.yaml --set tensr=2", "did you mean \"parallelism.tensor\"?"},
    {"run @small.yaml --set parallelism.tensr=2", "did you mean \"tensor\"?"},
    {"run @small.yaml --set sequence_parallel=maybe", "did you mean \"parallelism.sequence_parallel\""},
    {"run @small.yaml --set tp=two", "expected an integer"},
    {"run @small.yaml --set tp=0", "expected 1 to"},
    {"run @small.yaml --set tp=3", "expected a multiple of 6 GPUs"},
    {"run @small.yaml --set tp=4", "expected data: 2"},
    {"run @small.yaml --set precision=fp7", "did you mean \"fp8\"?"},
    {"run @small.yaml --set sharding=zero4", "expected one of none, optimizer, gradients, parameters"},
    {"run @small.yaml --set recompute=ful", "did you mean \"full\"?"},
    {"run @small.yaml --set optimizer=adamw2", "did you mean \"adam\"?"},
    {"run @small.yaml --set batch.global=17", "expected a multiple of data 4 x micro 1 = 4"},
    {"run @small.yaml --set cluster.gpus=1e99", "expected an integer"},
    // names of what ships
    {"run eos-gpt3-175", "did you mean the shipped scenario \"eos-gpt3-175b\"?"},
    {"run megascal", "did you mean the shipped scenario \"megascale-gpt3-175b\"?"},
    {"run gpt4", "expected one of the shipped scenarios eos-gpt3-175b"},
    {"run nothing-like-it.yaml", "orrery list scenarios"},
    {"run h100-sxm-80gb", "got a device profile, expected a scenario"},
    {"run h100", "got a device profile (h100-sxm-80gb), expected a scenario"},
    {"run b200", "it is part of the name of dlrm-dcnv2-b200-8"},
    {"advise megatron", "--set software=megatron-core-0.16"},
    {"search mixtral", "or ask: --model mixtral-8x"},
    {"run h100 --model llama3.1-8b --gpus 8", "expected --device h100 beside the other flags"},
    {"search megatron --model llama3.1-8b --device h100 --gpus 8", "expected --software megatron beside"},
    {"serving llama3.1-70b --device h100 --gpus 8", "expected --model llama3.1-70b beside the other flags"},
    {"run llama3.1-70b", "--set model=llama3.1-70b"},
    {"run llama3.1-70b --device h100 --gpus 64", "got a model where a scenario stands, expected --model llama3.1-70b"},
    {"search h100-sxm-80gb --model llama3.1-8b --gpus 8", "expected --device h100-sxm-80gb"},
    {"run ndr-rail", "--set cluster.fabric=ndr-rail"},
    {"run nemo-25.11", "--set software=nemo-25.11"},
    {"run @small.yaml --set device=h1000", "expected one of h100-hbm2e-96gb, h100-pcie-80gb, h100-sxm-80gb"},
    {"run @small.yaml --set device=ndr-rail",
     "got the fabric \"ndr-rail\", expected a device profile: orrery list devices"},
    {"run @small.yaml --set model=llama3", "expected one of llama3-70b, llama3-8b"},
    {"run @small.yaml --set fabric=nvlink", "expected one of nvl72-ndr, nvl72-xdr"},
    {"run --model lama3.1-70b --device h100 --gpus 8", "did you mean \"llama3.1-70b\"?"},
    {"run --model llama --device h100 --gpus 8", "llama3.1-70b"},
    {"run --model llama3.1-70b --device h100", "without --gpus"},
    {"search --model llama3.1-70b --device h100 --gpus 512 --software pytroch", "did you mean \"pytorch-fsdp2-2026\"?"},
    {"topology ndr-rial", "did you mean \"ndr-rail\"?"},
    {"topology eos-gpt3-17b", "did you mean \"eos-gpt3-175b\"?"},
    {"topology BADNAME", "orrery list fabrics and orrery list scenarios"},
    {"topology llama3.1-8b", "got a model, expected a fabric or a scenario"},
    {"collective BAD --op all_reduce --gpus 8", "orrery list fabrics and orrery list scenarios"},
    {"compare @small.yaml smal", "orrery list scenarios"},
    {"traffic gpt3-6.7-h100", "did you mean the shipped scenario \"gpt3-6.7b-h100\"?"},
    {"advise eoss", "did you mean the shipped scenario \"eos-gpt3-175b\"?"},
    {"serving llama3.1-70b-servin-h100", "did you mean the shipped scenario \"llama3.1-70b-serving-h100\"?"},
    {"rl qwen3-32b-grpo", "expected one of qwen3-32b-grpo-256h100-async"},
    {"flops gpt5", "expected one of the shipped scenarios"},
    {"reproduce eoss", "did you mean \"megascale-eos\"?"},
    {"list devicse", "did you mean devices?"},
    {"list quux", "expected one of devices, "},
    {"help tensr", "did you mean \"tensor\"?"},
    {"help parallelism.tensr", "did you mean \"parallelism.tensor\"?"},
    // ranges and numbers
    {"sweep @small.yaml", "got no --vary"},
    {"sweep @small.yaml --vary tp=", "expected null, which means the default, or a value"},
    {"sweep @small.yaml --vary tp=8-2", "expected 2:8:2 (doubling)"},
    {"sweep @small.yaml --vary tp=8..2", "expected 2:8:2 (doubling)"},
    {"sweep @small.yaml --vary tp=8:1:2", "which ends before it begins"},
    {"sweep @small.yaml --vary tpp=1,2", "did you mean \"parallelism.tensor\"?"},
    {"collective @small.yaml", "--op all_reduce"},
    {"collective @small.yaml --op allreduce --gpus 8", "did you mean all_reduce?"},
    {"collective @small.yaml --op all_reduce --gpus 17", "at most the 16 GPUs"},
    {"collective @small.yaml --op all_reduce --gpus 8 --sizes 1GB:1MB:2", "as in 1MB:1GB:2"},
    {"search @small.yaml --objective speed", "expected one of tokens_per_s, mfu, time, cost"},
    {"search @small.yaml --objective gpus", "--deadline '30 days'"},
    {"search @small.yaml --objective gpus --deadline 30", "a time in minutes, hours, days or weeks"},
    {"search @small.yaml --top none", "expected a whole number from 1"},
    {"search --model llama3.1-8b --device h100 --gpus 8 --price free", "expected a number from 0"},
    {"run --model llama3.1-8b --device h100 --gpus many", "expected a whole number from 1"},
    {"flops @small.yaml --tokens lots", "expected a number from 1"},
    {"plan @small.yaml --stage 9", "expected 0 to 1, the stages"},
    {"page --port http", "expected a whole number from 0 to 65535"},
    // files of other kinds
    {"run @config.json", "orrery import hf FILE makes one of it"},
    {"run @model.yaml", "got a model, expected a scenario: name it in one, as model: FILE"},
    {"run @fabric.yaml", "got a fabric, expected a scenario"},
    {"run @table.csv", "expected a scenario (a mapping of keys)"},
    {"run @picture.png", "expected YAML text"},
    {"run .", "is a folder, expected a YAML file"},
    {"campaign @small.yaml", "expected as in {tokens: 15e12"},
    {"serving @small.yaml", "expected one, as in serving: {pools:"},
    {"rl @small.yaml", "expected one, as in rl: {"},
    {"validate @table.csv", "or a list of records"},
    {"flows @table.csv", "expected id,src,dst,bytes,start_s,links"},
    {"diff @small.yaml @trace.json", "expected traces and, last, the scenario"},
    {"learn @trace.json --scenario @small.yaml", "expected a trace of PyTorch's profiler"},
    {"import @small.yaml", "orrery run FILE"},
    {"import @table.csv", "expected orrery import KIND FILE with one of hf, graph, megatron"},
    {"import huggingface @config.json", "expected one of hf, graph, megatron"},
    {"export @small.yaml", "expected one of megatron, chakra"},
    {"export megatron", "orrery export megatron --help"},
    {"completion powershell", "expected one of bash, zsh, fish"},
    {"page --listen 0.0.0.0", "expected --token TOKEN beside it"},
};

std::vector<std::string> words_of(const Mistake& mistake, const tests::Folder& folder) {
  std::vector<std::string> words;
  std::istringstream text(mistake.words);
  for (std::string word; text >> word;) words.push_back(word.starts_with('@') ? folder.file(word.substr(1)) : word);
  return words;
}

}  // namespace

TEST_CASE("every mistake of the table ends in one line that names the remedy") {
  const tests::Folder folder;
  folder.write("small.yaml", tests::small_scenario());
  folder.write("config.json", R"({"model_type": "llama", "hidden_size": 64})");
  folder.write("model.yaml", "name: own\nlayers: 8\nhidden: 64\n");
  folder.write("fabric.yaml", "name: own\nkind: fat_tree\nnics: 8\nnic_rate: 400 Gb/s\n");
  folder.write("table.csv", "a,b\n1,2\n");
  folder.write("trace.json", R"({"a": 1})");
  folder.write("picture.png", "\x89PNG\r\n");
  for (const Mistake& mistake : kMistakes) {
    INFO("orrery " << mistake.words);
    const tests::Outcome outcome = tests::orrery(words_of(mistake, folder));
    tests::check_refused(outcome, mistake.remedy);
  }
}

TEST_CASE("a file whose name is empty, as a variable leaves that is not set, is refused before anything runs") {
  const tests::Folder folder;
  const std::string scenario = folder.write("small.yaml", tests::small_scenario());
  const std::vector<std::vector<std::string>> commands{
      {"run", scenario, "--json", ""},
      {"run", scenario, "--trace", ""},
      {"run", scenario, "--report", ""},
      {"sweep", scenario, "--vary", "batch.micro=1", "--csv", ""},
      {"sweep", scenario, "--vary", "batch.micro=1", "--resume", ""},
      {"traffic", ""},
      {"topology", ""},
      {"validate", ""},
      {"topology", scenario, "--dot", ""},
      {"flows", "", "--out", "flows.csv"},
      {"import", "hf", ""},
      {"collective", scenario, "--op", "all_reduce", "--gpus", "2", "--json", ""}};
  for (const std::vector<std::string>& words : commands) {
    INFO(words.front() << ' ' << words.back());
    tests::check_refused(tests::orrery(words), "got an empty name");
  }
}
