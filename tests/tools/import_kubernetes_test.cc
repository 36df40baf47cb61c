// Do manifests of Kubernetes become what their containers run, on the GPUs that their pods ask for, and do checkpoints
// of several types say each?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "scenarios/scenario.h"
#include "sim/error.h"
#include "tests/catch.h"
#include "tests/tools/program.h"
#include "tools/import/checkpoint_types.h"
#include "tools/import/import.h"
#include "tools/import/kubernetes.h"
#include "tools/import/serving_flags.h"

using namespace orrery;
using tests::Folder;

namespace {

constexpr const char* kDeployment = R"(apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data:
  run.sh: |
    exec vllm serve $MODEL --tensor-parallel-size 4 --max-num-seqs 128
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama}
spec:
  replicas: 2
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}
      containers:
      - name: server
        image: vllm/vllm-openai:v0.11.0
        command: [/bin/bash, /scripts/run.sh]
        env:
        - name: MODEL
          value: meta-llama/Llama-3.1-70B-Instruct
        - name: HF_TOKEN
          valueFrom: {secretKeyRef: {name: hf, key: token}}
        resources:
          limits: {nvidia.com/gpu: "4"}
        livenessProbe: {httpGet: {path: /health, port: 8000}}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {ports: [{port: 80}]}
)";

/// A master and three workers of one template.
std::string manifest_training() {
  const std::string pods = R"(
        spec:
          containers:
          - name: pytorch
            image: pytorch
            command: [bash, -c]
            args:
            - |
              torchrun --nnodes $PET_NNODES pretrain_gpt.py --num-layers 32 --hidden-size 4096 --bf16 \
                --num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --global-batch-size 128 \
                --tensor-model-parallel-size 2
            resources: {limits: {nvidia.com/gpu: 8}}
)";
  const std::string job =
      "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: gpt}\nspec:\n  nprocPerNode: \"8\"\n"
      "  pytorchReplicaSpecs:\n";
  return job + "    Master:\n      replicas: 1\n      template:" + pods +
         "    Worker:\n      replicas: 3\n      template:" + pods;
}

tools::Draft of_manifest(const Folder& folder, const std::string& text) {
  return tools::import_kubernetes(folder.write("job.yaml", text), {}, {});
}

std::string manifest_with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string manifest_text(const tools::Draft& draft, const std::string& path) {
  const sim::Settings* found = draft.document().find_path(path);
  return found != nullptr && found->is_scalar() ? found->text() : "";
}

bool manifest_says(const tools::Draft& draft, const std::string& word) {
  const std::string all = fmt::format("{}\n{}", fmt::join(draft.ignored(), "\n"), fmt::join(draft.assumed(), "\n"));
  return all.find(word) != std::string::npos;
}

const sim::Settings& manifest_pool(const tools::Draft& draft) {
  return draft.document().find_path("serving.pools")->items()[0];
}

}  // namespace

TEST_CASE("pods that a manifest repeats by an alias are as many as it says") {
  const Folder folder;
  std::string text = manifest_training();
  const std::size_t first = text.find("template:"), second = text.find("template:", first + 1);
  text = text.substr(0, first) + "template: &pods" + text.substr(first + 9, second - first - 9) + "template: *pods\n";
  CHECK(of_manifest(folder, text).document().find_path("cluster.gpus")->text() == "32");
}

TEST_CASE("a script that ends ahead of its server says which of its variables nobody assigns") {
  const std::string script =
      "ready() { exit 1; }\nready\nLOG=a.log\nvllm serve $MODEL --tensor-parallel-size ${TP} > $LOG\n";
  const auto served = [&](const std::map<std::string, std::string>& environment) {
    tools::ShellGiven given;
    given.environment = environment;
    return tools::import_server_script("vllm", script, "serve.sh", {8, 1}, {}, given);
  };
  CHECK_THROWS_WITH(served({}), ContainsSubstring("the script ends ahead of it, and assigns nowhere MODEL, TP;"));
  CHECK_THROWS_WITH(served({{"TP", "2"}}), ContainsSubstring("assigns nowhere MODEL;"));
  CHECK_THROWS_WITH(served({{"MODEL", "m"}, {"TP", "2"}}), ContainsSubstring("expected a launch line of it"));
}

TEST_CASE("a cloud's type of machine says the device of its pods") {
  const Folder folder;
  for (const auto& [type, device] : {std::pair{"p4d.24xlarge", "a100-sxm-40gb"},
                                     {"p5en.48xlarge", "h200-sxm-141gb"},
                                     {"a3-megagpu-8g", "h100-sxm-80gb"},
                                     {"Standard_ND96isr_H200_v5", "h200-sxm-141gb"},
                                     {"a4x-highgpu-4g", "gb200"}}) {
    const std::string selector = std::string("node.kubernetes.io/instance-type: ") + type;
    CHECK(
        manifest_text(of_manifest(folder, manifest_with(kDeployment, "nvidia.com/gpu.product: NVIDIA-H200", selector)),
                      "cluster.device") == device);
  }
}

TEST_CASE("a Deployment's server has its script, its variables, its GPUs and its replicas") {
  const Folder folder;
  const tools::Draft draft = of_manifest(folder, kDeployment);
  CHECK(manifest_text(draft, "model") == "llama3.1-70b");
  CHECK(manifest_text(draft, "cluster.device") == "h200-sxm-141gb");
  CHECK(manifest_text(draft, "cluster.gpus") == "8");  // two replicas of four
  CHECK(manifest_pool(draft).at("replicas").text() == "2");
  CHECK(manifest_pool(draft).find_path("parallelism.tensor")->text() == "4");
  for (const char* word : {"HF_TOKEN", "livenessProbe", "Service front", "nvidia"})
    CHECK((manifest_says(draft, word) == (std::string(word) != "nvidia")));
  // Arguments alone are the image's own command's, and $(NAME) is a variable of the container's.
  const tools::Draft alone = of_manifest(
      folder, manifest_with(kDeployment, "command: [/bin/bash, /scripts/run.sh]",
                            "args: [--model, $(MODEL), --tensor-parallel-size=2, --max-model-len, \"4096\"]"));
  CHECK(manifest_text(alone, "model") == "llama3.1-70b");
  CHECK(manifest_pool(alone).find_path("parallelism.tensor")->text() == "2");
  // GPUs that are not enough are said first.
  const tools::Draft more =
      of_manifest(folder, manifest_with(kDeployment, "--tensor-parallel-size 4", "--tensor-parallel-size 8"));
  CHECK(more.ignored().front().find("GPUs that Deployment llama asks for") != std::string::npos);
}

TEST_CASE("pods of a training and of a leader with its workers are counted together") {
  const Folder folder;
  CHECK(manifest_text(of_manifest(folder, manifest_training()), "cluster.gpus") ==
        "32");  // one master and three workers of eight
  std::string named = manifest_training();
  for (int pods = 0; pods < 2; ++pods) named = manifest_with(named, "--nnodes $PET_NNODES ", "");
  CHECK(manifest_text(of_manifest(folder, named), "cluster.gpus") == "32");
  const std::string group = R"(apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: wide}
spec:
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers:
        - image: lmsysorg/sglang
          command: [python3, -m, sglang.launch_server, --model-path, deepseek-ai/DeepSeek-V3, --tp, "16"]
          resources: {limits: {nvidia.com/gpu: "8"}}
)";
  CHECK(manifest_text(of_manifest(folder, group), "cluster.gpus") == "16");
  // Pods that one server needs all of are its nodes.
  const std::string nodes = R"(apiVersion: apps/v1
kind: StatefulSet
metadata: {name: wide}
spec:
  replicas: 4
  template:
    spec:
      containers:
      - image: lmsysorg/sglang
        command: [python3, -m, sglang.launch_server, --model-path, deepseek-ai/DeepSeek-V3, --tp, "16", --nnodes, "2"]
        resources: {limits: {nvidia.com/gpu: "8"}}
)";
  const tools::Draft two = of_manifest(folder, nodes);
  CHECK(manifest_text(two, "cluster.gpus") == "32");
  CHECK(manifest_pool(two).at("replicas").text() == "2");
  CHECK(manifest_says(of_manifest(folder, manifest_with(manifest_with(group, "\"16\"", "\"4\""), "\"8\"", "\"2\"")),
                      "gpus_per_node=2"));
}

TEST_CASE("no line of a manifest is dropped without a word") {
  const Folder folder;
  const auto told = [&](const std::string& text) {
    try {
      const tools::Draft draft = of_manifest(folder, text);
      return fmt::format("{}\n{}\n{}", draft.values(), fmt::join(draft.ignored(), "\n"),
                         fmt::join(draft.assumed(), "\n"));
    } catch (const sim::UserError& error) {
      return fmt::format("refused: {}", error.what());
    }
  };
  const std::string whole = kDeployment;  // of which the document of the pods alone is read
  const std::size_t from = whole.find("---\n") + 4;
  const std::string pods = manifest_with(whole.substr(from, whole.rfind("---\n") - from),
                                         "command: [/bin/bash, /scripts/run.sh]", "args: [--model, $(MODEL)]");
  for (const std::string& text : {pods, manifest_training()}) {
    REQUIRE_FALSE(told(text).starts_with("refused"));
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::size_t name = lines[i].find_first_not_of(' ');
      const bool key = lines[i].find(": ") != std::string::npos || lines[i].ends_with(":");
      if (!key || lines[i][name] == '-' || name == std::string::npos) continue;
      std::string with;
      for (std::size_t j = 0; j < lines.size(); ++j)
        with += (j == i ? lines[i].substr(0, name) + "unheardOf: 1\n" : "") + lines[j] + "\n";
      const std::string after = told(with);
      INFO(lines[i] << "\n" << after);
      CHECK((after.starts_with("refused") || after.find("unheardOf") != std::string::npos));
    }
  }
}

TEST_CASE("a manifest that starts nothing known, and a template, are told what they are") {
  const Folder folder;
  const auto refusal = [&](const std::string& text) {
    try {
      of_manifest(folder, text);
      return std::string();
    } catch (const sim::UserError& error) {
      return std::string(error.what());
    }
  };
  CHECK(refusal("apiVersion: v1\nkind: Service\nmetadata: {name: front}\n").find("Service front") != std::string::npos);
  CHECK(refusal("apiVersion: v1\nkind: Pod\nspec: {{ .Values.spec }}\n").find("helm template") != std::string::npos);
  CHECK(tools::import_kind(folder.write("any.yaml", kDeployment)) == "kubernetes");
}

TEST_CASE("a checkpoint's types are those of attention, of experts and of the rest") {
  const auto types = [](const std::string& text) {
    const auto found = tools::checkpoint_types(scenarios::parse_yaml(text, "config.json"), 48);
    return found ? found->text() : "none";
  };
  CHECK(types("{quant_method: fp8, weight_block_size: [128, 128]}") == "{weights: fp8-block}");
  CHECK(types("{quant_method: fp8, modules_to_not_convert: [lm_head]}") == "{weights: fp8}");
  CHECK(types("{quant_method: mxfp4, modules_to_not_convert: [model.layers.*.self_attn, model.layers.*.mlp.router, "
              "lm_head]}") == "{weights: bf16, experts: mxfp4}");
  CHECK(types("{quant_method: gptq, bits: 4}") == "{weights: int4}");
  CHECK(types("{quant_method: modelopt, quant_algo: NVFP4, ignore: ['*self_attn*', lm_head]}") ==
        "{weights: nvfp4, attention: bf16}");
  // One list names each layer's module by itself; another leaves all but the experts alone.
  CHECK(types("{quantization: {quant_algo: NVFP4, kv_cache_quant_algo: FP8, exclude_modules: "
              "[model.layers.24.self_attn, model.layers.24.mlp.shared_experts]}}") ==
        "{weights: bf16, experts: nvfp4, kv_cache: fp8}");
  const std::string group =
      "{quant_method: compressed-tensors, format: pack-quantized, config_groups: {group_0: {targets: [Linear], "
      "weights: "
      "{num_bits: 4, type: int, group_size: 32}}}, ignore: [lm_head, 're:.*self_attn.*', 're:.*shared_experts.*', "
      "'re:.*mlp\\.(gate|up|gate_up|down)_proj.*']}";
  CHECK(types(group) == "{weights: bf16, experts: int4}");
  CHECK(types("{quant_method: compressed-tensors, format: nvfp4-pack-quantized, config_groups: {a: {targets: "
              "['re:.*experts\\.\\d+\\..*'], weights: {num_bits: 4, type: float, group_size: 16}}, b: {targets: "
              "['re:.*self_attn.*'], weights: {num_bits: 8, type: float, strategy: channel}}}}") ==
        "{weights: bf16, attention: fp8, experts: nvfp4}");
  CHECK(types("{quant_method: modelopt, quant_algo: MIXED_PRECISION, quantized_layers: {model.layers.24.mlp.experts: "
              "{quant_algo: NVFP4}, model.layers.24.self_attn.q_proj: {quant_algo: FP8}}}") ==
        "{weights: bf16, attention: fp8, experts: nvfp4}");
  CHECK(types("{quant_method: unheard-of}") == "none");
}

TEST_CASE("a folder with a checkpoint says the served model and its types") {
  const Folder folder;
  folder.write("config.json", R"({"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936,
    "max_position_embeddings": 40960, "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": false,
    "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4",
    "ignore": ["*self_attn*", "lm_head"]}})");
  const std::string path = std::filesystem::path(folder.write("x", "")).parent_path().string();
  const tools::Draft draft = tools::import_server("vllm", {"vllm serve " + path + " --tensor-parallel-size 2"}, 8, {});
  CHECK(manifest_text(draft, "model.experts") == "128");
  CHECK(manifest_text(draft, "precision.experts") == "nvfp4");
  CHECK(manifest_text(draft, "precision.attention") == "bf16");
  const tools::Draft alone = tools::import_hf(path + "/config.json");
  CHECK(manifest_says(alone, "attention: bf16"));
}

TEST_CASE("options that a server's script writes into a file are taken with those of its line") {
  const Folder folder;
  const std::string script =
      "cat << EOF > ser.yaml\nmax_batch_size: 64\nkv_cache_config:\n  free_gpu_memory_fraction: 0.9\n"
      "  enable_block_reuse: false\n  dtype: fp8\n  host_cache_size: 100\nenable_attention_dp: true\nEOF\n"
      "cat << EOF >> ser.yaml\nenable_chunked_prefill: true\nunheard_of: 7\nEOF\n"
      "trtllm-serve nvidia/DeepSeek-R1-0528-NVFP4 --tp_size 8 --ep_size 8 --extra_llm_api_options ser.yaml\n";
  const tools::Draft draft = tools::import_server("trtllm", {folder.write("serve.sh", script)}, 8, {});
  const sim::Settings& pool = manifest_pool(draft);
  CHECK(pool.find_path("parallelism.attention_data")->text() == "8");
  CHECK(pool.find_path("parallelism.tensor")->text() == "1");
  CHECK(pool.at("max_sequences").text() == "64");
  CHECK(pool.at("prefix_caching").text() == "false");
  CHECK(pool.at("chunked_prefill").text() == "true");
  CHECK(manifest_text(draft, "precision.kv_cache") == "fp8");
  CHECK(manifest_text(draft, "precision.attention") == "bf16");  // which this checkpoint leaves as it was
  CHECK(draft.ignored().front().find("host-cache-size") != std::string::npos);
  CHECK(manifest_says(draft, "unheard-of"));
  CHECK(manifest_says(tools::import_server("vllm", {"vllm serve Qwen/Qwen3-8B --tensor-paralel-size 2"}, 8, {}),
                      "did you mean --tensor-parallel-size?"));
  CHECK(
      manifest_says(tools::import_server("vllm", {"vllm serve Qwen/Qwen3-8B --config none.yaml"}, 8, {}), "none.yaml"));
}
