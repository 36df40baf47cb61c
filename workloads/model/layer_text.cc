// A layer as lines of text. See layer.h.
#include <fmt/format.h>

#include "workloads/model/layer.h"

namespace orrery::workloads {

namespace {

const char* letter(Direction direction) { return direction == Direction::forward ? "F" : "B"; }

std::string_view exchange_name(Exchange exchange) {
  const auto op = collective_of(exchange);
  return op ? calibration::name_of(*op) : "copy";
}

std::string line(const StreamingOp& op) {
  return fmt::format("{} {}: {:.0f} x {:g} B\n", letter(op.direction), op.name, op.elements, op.bytes_each);
}

std::string line(const LinearOp& op) {
  std::string out;
  if (op.input)
    out += fmt::format("* {} of the input, tensor: {:.0f}\n", exchange_name(op.input->exchange), op.input->elements);
  for (const MatMul& p : op.products) {
    out += fmt::format("* {}: {}[{}, {}] on [{}, {}], {}\n", p.name, p.copies > 1 ? fmt::format("{} x ", p.copies) : "",
                       p.out, p.in, p.tokens, p.in, calibration::name_of(p.type));
    for (const StreamingOp& after : p.after) out += "    " + line(after);
    for (const StreamingOp& after : p.after_gradient) out += "    with its weight gradient, " + line(after);
  }
  return out;
}

std::string line(const AttentionOp& op) {
  return fmt::format(
      "* {} attention: {} x {} positions{}, {} heads over {} of {}{}{}\n", op.fused ? "fused" : "unfused", op.batch,
      op.seq / op.context,
      op.context > 1      ? fmt::format(" of {}", op.seq)
      : op.other_keys > 0 ? fmt::format(" to {}", op.other_keys)
                          : "",
      op.heads, op.kv_heads, op.head_dim,
      op.window.keys > 0 ? fmt::format(", {} {}", op.window.chunked ? "chunks of" : "window", op.window.keys) : "",
      op.recomputed ? ", recomputed" : "");
}

std::string line(const MixerOp& op) { return fmt::format("* {}\n", op.text); }

std::string line(const CommOp& op) {
  return fmt::format("* {}, {}: {:.0f}\n", exchange_name(op.exchange), op.group.name, op.elements);
}

std::string line(const HostOp& op) {
  if (op.experts == 0) return "H the host, a layer of experts\n";
  return fmt::format("H the host, {:g} experts{}\n", op.experts, op.new_sizes ? ", new sizes" : "");
}
std::string line(const RunEnd& op) { return op.host_waits ? "F the host waits\n" : ""; }

std::string line(const Recomputed& op) { return op.begins ? "{ recomputed\n" : "}\n"; }

/// Two columns to the right, every line.
std::string indented(const std::string& lines) {
  std::string out;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin) + 1;
    out += "  " + lines.substr(begin, end - begin);
    begin = end;
  }
  return out;
}

}  // namespace

std::string text(const Layer& layer) {
  std::string out = fmt::format("{}{}\n", name_of(layer.kind), layer.recomputed ? ", recomputed" : "");
  for (std::size_t i = 0; i < layer.ops.size(); ++i) {
    if (layer.recomputed && layer.needed_again == i) out += "  not run again from here on\n";
    out += indented(std::visit([](const auto& o) { return line(o); }, layer.ops[i]));
  }
  for (const Kept& kept : layer.kept) {
    out += fmt::format("  {} {}: {:.0f} x {:g} B\n", kept.as == KeptAs::recomputed ? "makes again" : "keeps", kept.name,
                       kept.elements, kept.bytes_each);
  }
  for (const Weights& weights : layer.weights)
    out += fmt::format("  weighs {}: {:.0f}\n", weights.name, weights.elements);
  return out;
}

}  // namespace orrery::workloads
