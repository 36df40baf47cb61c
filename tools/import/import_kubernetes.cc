// `orrery import kubernetes`: a manifest around a server's launch line or around a training of Megatron-LM's; what it
// says of pods, GPUs and devices goes with what its command says (kubernetes.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "tools/import/import.h"
#include "tools/import/kubernetes.h"
#include "tools/import/serving_flags.h"

namespace orrery::tools {

namespace {

/// The importer of a command; empty: none.
std::string importer_of(const std::string& script) {
  constexpr std::array<std::pair<const char*, const char*>, 11> kMarks{{{"vllm serve", "vllm"},
                                                                        {"'vllm' 'serve'", "vllm"},
                                                                        {"vllm.entrypoints.", "vllm"},
                                                                        {"sglang.launch_server", "sglang"},
                                                                        {"sglang serve", "sglang"},
                                                                        {"'sglang' 'serve'", "sglang"},
                                                                        {"trtllm-serve", "trtllm"},
                                                                        {"--num-layers", "megatron"},
                                                                        {"--tensor-model-parallel-size", "megatron"},
                                                                        {"--micro-batch-size", "megatron"},
                                                                        {"pretrain_gpt.py", "megatron"}}};
  for (const auto& [mark, kind] : kMarks)
    if (script.find(mark) != std::string::npos) return kind;
  return "";
}

/// GPUs of all replicas of a server's pool.
std::int64_t ranks_of(const Draft& draft) {
  const sim::Settings* pools = draft.document().find_path("serving.pools");
  if (pools == nullptr || pools->items().empty()) return 0;
  const sim::Settings& pool = pools->items()[0];
  std::int64_t ranks = pool.get_int("replicas", 1);
  for (const char* degree : {"tensor", "pipeline", "attention_data"})
    if (const sim::Settings* of = pool.find_path(std::string("parallelism.") + degree); of != nullptr)
      ranks *= of->as_int(1, 1'000'000);
  return ranks;
}

Draft training_of(const ManifestJob& job, const std::string& file, const std::vector<std::string>& sets,
                  ShellGiven given) {
  const std::string pods = std::to_string(job.pods), gpus = std::to_string(std::max<std::int64_t>(1, job.gpus_per_pod));
  // As the operator sets them (kubeflow/training-operator, pkg/controller.v1/pytorch/envvar.go and elastic.go).
  for (const auto& [name, value] : {std::pair("PET_NNODES", pods), {"PET_NPROC_PER_NODE", gpus}})
    given.environment.emplace(name, value);
  LaunchScript script = read_launch_line(job.script, file, given);
  for (LaunchLine& line : script.ways) {
    const auto add = [&](const char* name, const char* other, const std::string& value) {
      const bool there = std::any_of(line.options.begin(), line.options.end(), [&](const LaunchOption& option) {
        return option.name == name || option.name == other;
      });
      if (!there) line.options.push_back({name, {value}, line.place});
    };
    add("nnodes", "nnodes", pods);
    if (job.gpus_per_pod > 0) add("nproc-per-node", "nproc_per_node", gpus);
  }
  return import_megatron(script, sets);
}

}  // namespace

Draft import_kubernetes(const std::string& file, const std::vector<std::string>& sets, const ShellGiven& given) {
  const std::string text = read_text(file);
  std::string kind;
  const ManifestJob job = read_manifest(text, file, [&](const std::string& script) {
    const std::string found = importer_of(script);
    if (!found.empty()) kind = found;
    return !found.empty();
  });
  ShellGiven inside = given;
  for (const auto& [name, value] : job.environment) inside.environment.emplace(name, value);
  // As a LeaderWorkerSet sets it in all of its pods (kubernetes-sigs/lws, pkg/utils/pod).
  inside.environment.emplace("LWS_GROUP_SIZE", std::to_string(job.pods));
  inside.read = [&job](const std::string& path) -> std::optional<std::string> {
    const auto held = job.files.find(std::filesystem::path(path).filename().string());
    return held != job.files.end() ? std::optional<std::string>(held->second) : std::nullopt;
  };
  const std::int64_t of_replica = job.pods * job.gpus_per_pod, gpus = job.replicas * of_replica;
  const auto server = [&](std::int64_t replicas) {
    return import_server_script(kind, job.script, file, {gpus, replicas}, sets, inside);
  };
  Draft draft = kind == "megatron" ? training_of(job, file, sets, inside) : server(job.replicas);
  // Pods of a StatefulSet may be the nodes of one server, which is larger than a pod.
  const std::int64_t of_server = kind == "megatron" ? 0 : ranks_of(draft) / job.replicas;
  const bool joined = job.name.starts_with("StatefulSet") || job.script.find("nnodes") != std::string::npos;
  if (joined && job.replicas > 1 && of_replica > 0 && of_server > of_replica && of_server <= gpus) {
    draft = server(gpus / of_server);
    draft.assumed("serving.pools[].replicas", fmt::format("{}: a server of {} GPUs stands on several of the {} pods",
                                                          gpus / of_server, of_server, job.replicas));
  }
  if (job.pods > 1 && job.gpus_per_pod > 0 && job.gpus_per_pod < 8 && kind != "megatron")
    draft.first(
        fmt::format("{} pods of {} GPUs: taken as on one node; --set cluster.gpus_per_node={} where each stands "
                    "on its own",
                    job.pods, job.gpus_per_pod, job.gpus_per_pod));
  if (!job.device.empty()) {
    draft.forget("cluster.device");
    draft.set("cluster.device", job.device);
  }
  const sim::Settings* taken = draft.document().find_path("cluster.gpus");
  const std::int64_t in_use = taken != nullptr ? taken->as_int(1) : 0;
  if (gpus == 0) {
    draft.assumed("cluster.gpus", fmt::format("{}: {} asks for no GPU", in_use, job.name));
  } else if (in_use > (gpus + 7) / 8 * 8) {
    draft.first(
        fmt::format("the {} GPUs that {} asks for: its command takes {}, which are taken", gpus, job.name, in_use));
  }
  for (const auto& [what, why] : job.told) draft.ignored(what, why);
  return draft;
}

}  // namespace orrery::tools
