// See logged_configuration.h. Keys are those of NeMo's configurations, which Megatron-Core's parameters gave their
// names. Left out: what a configuration says of optimizers, of data and of how kernels run.
#include "tools/import/logged_configuration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "tools/import/recipe_graphs.h"
#include "workloads/schedules/schedule.h"

namespace orrery::tools {

namespace {

const std::set<std::string>& read_keys() {
  static const std::set<std::string> kKeys{"tensor_model_parallel_size",
                                           "pipeline_model_parallel_size",
                                           "virtual_pipeline_model_parallel_size",
                                           "context_parallel_size",
                                           "expert_model_parallel_size",
                                           "micro_batch_size",
                                           "sequence_parallel",
                                           "devices",
                                           "num_nodes",
                                           "cp_comm_type",
                                           "fp8",
                                           "fp8_recipe",
                                           "fp8_hybrid",
                                           "fp8_param_gather",
                                           "fp4",
                                           "fp4_recipe",
                                           "recompute_granularity",
                                           "recompute_method",
                                           "recompute_num_layers",
                                           "activations_checkpoint_granularity",
                                           "activations_checkpoint_method",
                                           "activations_checkpoint_num_layers",
                                           "use_distributed_optimizer",
                                           "overlap_grad_reduce",
                                           "overlap_param_gather",
                                           "ub_tp_comm_overlap",
                                           "enable_cuda_graph",
                                           "cuda_graph_scope"};
  return kKeys;
}

}  // namespace

bool LoggedConfiguration::take(const std::string& line) {
  // A rank and a colon, blanks, a key, a colon and a value.
  std::size_t at = line.find_first_not_of(' ');
  std::size_t digits = at;
  while (digits < line.size() && std::isdigit(static_cast<unsigned char>(line[digits])) != 0) ++digits;
  if (digits != at && digits < line.size() && line[digits] == ':') at = line.find_first_not_of(' ', digits + 1);
  if (at == std::string::npos) return false;
  const std::size_t colon = line.find(": ", at);
  if (colon == std::string::npos || colon - at > 60) return false;
  const std::string key = line.substr(at, colon - at);
  if (!read_keys().contains(key)) return false;
  std::string value = line.substr(colon + 2);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0) value.pop_back();
  if (value.empty() || value.size() > 40) return false;
  values_.emplace(key, value);
  return true;
}

std::string LoggedConfiguration::word(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() || found->second == "null" || found->second == "None" ? std::string() : found->second;
}

std::int64_t LoggedConfiguration::count(const std::string& key, std::int64_t fallback) const {
  const std::string text = word(key);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= (1 << 20);
  return whole ? value : fallback;
}

bool LoggedConfiguration::flag(const std::string& key) const {
  const std::string text = word(key);
  return text == "true" || text == "True" || text == "1";
}

std::int64_t LoggedConfiguration::gpus() const { return count("devices", 0) * count("num_nodes", 0); }

std::vector<std::string> LoggedConfiguration::degrees() const {
  return {fmt::format("parallelism.tensor={}", count("tensor_model_parallel_size", 1)),
          fmt::format("parallelism.pipeline={}", count("pipeline_model_parallel_size", 1)),
          fmt::format("parallelism.context={}", count("context_parallel_size", 1))};
}

void LoggedConfiguration::lay(Draft& draft) const {
  for (const std::string& degree : degrees()) draft.apply(degree);
  const std::int64_t stages = count("pipeline_model_parallel_size", 1),
                     chunks = stages > 1 ? count("virtual_pipeline_model_parallel_size", 1) : 1;
  draft.set("parallelism.virtual_pipeline", chunks);
  draft.set("parallelism.schedule", std::string(workloads::usual_schedule(chunks).name));
  if (const std::int64_t expert = count("expert_model_parallel_size", 1); expert > 1)
    draft.set("parallelism.expert", expert);
  draft.set("parallelism.sequence_parallel", flag("sequence_parallel") && count("tensor_model_parallel_size", 1) > 1);
  if (const std::string by = word("cp_comm_type"); count("context_parallel_size", 1) > 1 && by == "a2a")
    draft.set("parallelism.context_method", std::string("all_to_all"));
  if (values_.contains("use_distributed_optimizer"))
    draft.set("parallelism.sharding", std::string(flag("use_distributed_optimizer") ? "optimizer" : "none"));
  if (values_.contains("overlap_grad_reduce")) draft.set("overlap.gradients", flag("overlap_grad_reduce"));
  if (values_.contains("overlap_param_gather")) draft.set("overlap.parameters", flag("overlap_param_gather"));
  if (values_.contains("ub_tp_comm_overlap")) draft.set("overlap.tensor", flag("ub_tp_comm_overlap"));
  const std::string recipe = word("fp8_recipe");
  std::string type = !flag("fp8")            ? "bf16"
                     : recipe == "mxfp8"     ? "mxfp8"
                     : recipe == "blockwise" ? "fp8-blockwise"
                                             : "fp8";
  if (flag("fp4")) type = "nvfp4";
  draft.set("precision.matmul", type);
  draft.set("precision.activations", std::string("bf16"));
  if (type != "bf16" && flag("fp8_param_gather")) draft.set("precision.parameters", std::string("fp8"));
  std::string granularity = word("recompute_granularity");
  if (granularity.empty()) granularity = word("activations_checkpoint_granularity");
  const bool block = word("recompute_method") == "block" || word("activations_checkpoint_method") == "block";
  const std::int64_t layers = count("recompute_num_layers", count("activations_checkpoint_num_layers", 0));
  if (granularity == "full" && block && layers > 0) {
    draft.set("recompute.kind", granularity);
    draft.set("recompute.layers", layers);
  } else if (granularity.empty() || granularity == "full" || granularity == "selective") {
    draft.set("recompute", granularity.empty() ? std::string("none") : granularity);
  }
  if (flag("enable_cuda_graph"))
    put_graphs(draft, "transformer_engine", graph_scopes(word("cuda_graph_scope")), false, "cuda_graph_scope");
  std::vector<std::string> said;
  for (const auto& [key, value] : values_) said.push_back(fmt::format("{} {}", key, value));
  draft.assumed("layout, types, recomputation, overlap",
                fmt::format("those of the configuration that the log prints: {}", fmt::join(said, ", ")));
}

}  // namespace orrery::tools
