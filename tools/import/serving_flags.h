// Flags of inference servers: which key of a scenario each stands for, or why it stands for none. Importers and
// exporters read the same rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/import/import.h"

namespace orrery::tools {

enum class ServerKey : std::uint8_t {
  none,
  unmodelled,  // as none, and of weight: it is said first
  model,
  tensor,
  pipeline,
  data,
  attention_data,  // SGLang's switch: data-parallel groups are of the tensor ranks
  experts_apart,   // vLLM's switch: experts over all ranks
  expert,
  redundant,
  sequences,
  tokens,
  block,
  memory,
  chunks,
  no_chunks,
  prefixes,
  no_prefixes,
  eager,  // no captured graphs
  cache_type,
  state_type,
  polls,     // SGLang: iterations between two looks at what has come
  exchange,  // SGLang: how tokens go to experts on other ranks, and that they do
  quantization,
  type,
  options,         // a file of further options, in YAML
  generation,      // where what requests leave open comes from
  generation_over  // vLLM: what takes the place of the model's, as JSON
};

struct ServerFlag {
  enum class Form : std::uint8_t { value, switches };
  /// With `-` for `_`, the first is the one that is written, others behind blanks; one that ends with * stands for all
  /// that begin so.
  std::string_view names;
  ServerKey key = ServerKey::none;
  Form form = Form::value;
  std::string_view why = "";  // of none: without effect on times, or not modelled
};

struct ServerFlags {
  std::string_view engine;               // vllm, sglang, trtllm
  std::string_view release;              // calibration/engines
  std::string_view command, subcommand;  // that start it
  std::string_view line;                 // as it is written, ahead of its flags
  char joint = '-';                      // in names that are written
  std::span<const ServerFlag> flags;
  const ServerFlag* find(std::string_view name) const;
};

/// Throws sim::UserError for an engine that is not known.
const ServerFlags& server_flags(const std::string& engine);
/// "--max_num-seqs" -> "max-num-seqs".
std::string flag_name(std::string_view word);

/// `arguments`: a file, or the line as one word or as many. `gpus`: of the cluster, at least. `script`: of where it
/// runs.
Draft import_server(const std::string& engine, const std::vector<std::string>& arguments, std::int64_t gpus,
                    const std::vector<std::string>& sets, const ShellGiven& script = {});
/// Where a launch line is run: GPUs of the cluster, at least, and how often it is run beside itself.
struct ServerPlace {
  std::int64_t gpus = 1, replicas = 1;
};
/// Of the text of a file.
Draft import_server_script(const std::string& engine, const std::string& text, const std::string& file,
                           const ServerPlace& place, const std::vector<std::string>& sets, const ShellGiven& script);
/// The launch lines of a served scenario, one for each pool, with what has no flag as comments.
std::string server_arguments(const std::string& engine, const sim::Settings& document);

}  // namespace orrery::tools
