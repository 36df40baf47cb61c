// The launch lines of a served scenario, to run what was looked at. Every value is written out, also where the engine
// has the same default; what has no flag stands above as a comment.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/serving.h"
#include "tools/import/serving_flags.h"

namespace orrery::tools {

namespace {

/// The first name of the flag for a key; empty where the engine has none.
std::string written(const ServerFlags& server, ServerKey key) {
  for (const ServerFlag& flag : server.flags) {
    if (flag.key != key) continue;
    std::string name(flag.names.substr(0, flag.names.find(' ')));
    std::replace(name.begin(), name.end(), '-', server.joint);
    return "--" + name;
  }
  return {};
}

struct Lines {
  const ServerFlags& server;
  std::vector<std::string> flags, remarks;
  template <class Value>
  void add(ServerKey key, const char* what, const Value& value) {
    const std::string name = written(server, key);
    if (name.empty())
      remarks.push_back(fmt::format("{} {}: {} has no flag for it", what, value, server.engine));
    else
      flags.push_back(fmt::format("{} {}", name, value));
  }
  void add_switch(ServerKey key, const char* what) {
    const std::string name = written(server, key);
    if (name.empty())
      remarks.push_back(fmt::format("{}: {} has no flag for it", what, server.engine));
    else
      flags.push_back(name);
  }
};

void add_layout(Lines& lines, const workloads::ServedLayout& layout, std::int64_t replicas) {
  const std::string_view engine = lines.server.engine;
  const bool groups = layout.attention_data > 1;
  lines.add(ServerKey::tensor, "tensor",
            groups && engine == "sglang" ? layout.tensor * layout.attention_data : layout.tensor);
  if (layout.pipeline > 1) lines.add(ServerKey::pipeline, "pipeline", layout.pipeline);
  if (groups) lines.add(ServerKey::data, "attention_data", layout.attention_data);
  if (groups && engine == "sglang") lines.add_switch(ServerKey::attention_data, "attention_data");
  if (engine == "vllm" && layout.expert > 1) {
    lines.add_switch(ServerKey::experts_apart, "expert");
    if (layout.expert != layout.stage_gpus())
      lines.remarks.push_back(fmt::format("expert {}: vllm deals experts out to all {} ranks of a stage", layout.expert,
                                          layout.stage_gpus()));
  } else if (layout.expert > 1) {
    lines.add(ServerKey::expert, "expert", layout.expert);
  }
  if (layout.redundant_experts > 0) lines.add(ServerKey::redundant, "redundant_experts", layout.redundant_experts);
  if (replicas > 1) lines.remarks.push_back(fmt::format("replicas {}: start the line so many times", replicas));
}

std::string pool_line(const ServerFlags& server, const scenarios::ServingScenario& s, const scenarios::ServedPool& pool,
                      const char* role) {
  Lines lines{server, {}, {}};
  add_layout(lines, pool.replica.layout, pool.replicas);
  lines.add(ServerKey::sequences, "max_sequences", pool.limits.max_sequences);
  lines.add(ServerKey::tokens, "max_batched_tokens", pool.limits.max_batched_tokens);
  lines.add(ServerKey::block, "block_tokens", pool.limits.block_tokens);
  lines.add(ServerKey::memory, "memory_utilization", pool.limits.memory_utilization);
  if (server.engine == "vllm")
    lines.add_switch(pool.chunked_prefill ? ServerKey::chunks : ServerKey::no_chunks, "chunked_prefill");
  if (server.engine == "vllm" && pool.prefix_caching) lines.add_switch(ServerKey::prefixes, "prefix_caching");
  if (!pool.prefix_caching) lines.add_switch(ServerKey::no_prefixes, "prefix_caching: false");
  if (!pool.captures_graphs) lines.add_switch(ServerKey::eager, "graphs: none");
  const workloads::ServedPrecision& precision = pool.replica.precision;
  lines.add(ServerKey::cache_type, "precision.kv_cache",
            precision.kv_bytes == 1 ? (server.engine == "sglang" ? "fp8_e4m3" : "fp8") : "auto");
  const std::vector<workloads::Model::Block>& kinds = s.replica.model.pattern.kinds;
  if (std::any_of(kinds.begin(), kinds.end(), [](const workloads::Model::Block& b) { return b.state.any(); }))
    lines.add(ServerKey::state_type, "precision.states", precision.state_bytes == 2 ? "bfloat16" : "float32");
  if (pool.polls_every > 1) lines.add(ServerKey::polls, "polls_every", pool.polls_every);
  if (precision.weights != workloads::WeightType::bf16)
    lines.remarks.push_back(
        fmt::format("precision.weights {}: of the checkpoint that MODEL names", name_of(precision.weights)));
  if (pool.replica.speculation.tokens > 0)
    lines.remarks.push_back(fmt::format("speculative: {} tokens drafted", pool.replica.speculation.tokens));
  if (role[0] != '\0') lines.remarks.push_back(fmt::format("this line is of the pool for {}", role));
  std::string text;
  for (const std::string& remark : lines.remarks) text += fmt::format("# {}\n", remark);
  text += fmt::format("{} {}{}", server.line, server.engine == "sglang" ? "--model-path " : "", s.replica.model.name);
  for (const std::string& flag : lines.flags) text += " \\\n  " + flag;
  return text + "\n";
}

}  // namespace

std::string server_arguments(const std::string& engine, const sim::Settings& document) {
  const ServerFlags& server = server_flags(engine);
  const scenarios::ServingScenario s = scenarios::load_serving(document);
  std::string text = fmt::format("# {}: {} on {} x {}, which no flag says; {} stands for the checkpoint's name\n", s.id,
                                 s.replica.model.name, s.all_gpus(), s.machine.device.name(), s.replica.model.name);
  text += pool_line(server, s, s, s.answers ? "prompts" : "");
  if (s.answers) text += pool_line(server, s, *s.answers, "answers");
  return text;
}

}  // namespace orrery::tools
