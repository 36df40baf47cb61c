// What an importer makes: a scenario in the making, and its text with the remarks above it.
#include <fmt/format.h>

#include <algorithm>

#include "sim/printable.h"
#include "sim/text_file.h"
#include "tools/import/import.h"
#include "tools/report/text.h"

namespace orrery::tools {

using sim::Place;
using sim::Settings;

void Draft::set(std::string_view key, std::string value, const Place& place) {
  // What a scenario cannot say: its reader refuses it, and a terminal would obey it.
  if (value.find('\n') != std::string::npos || sim::printable(value) != value) {
    throw sim::UserError(place, std::string(key),
                         fmt::format("got \"{}\" with a line break, a control character or bytes that are no UTF-8, "
                                     "expected a line of text",
                                     sim::printable(value)));
  }
  document_.set_path(key, Settings::scalar(std::move(value), place.file.empty() ? whole_ : place));
}
void Draft::set(std::string_view key, std::int64_t value, const Place& place) {
  set(key, std::to_string(value), place);
}
void Draft::set(std::string_view key, bool value, const Place& place) {
  set(key, std::string(value ? "true" : "false"), place);
}

namespace {

constexpr std::int64_t kNode = 8;  // GPUs
constexpr const char* kBatch = "batch.global";

std::string say_batch(std::int64_t sequences, std::int64_t micro) {
  return fmt::format("{}, {} for each GPU; --set batch.global=N", sequences,
                     micro == 1 ? "one sequence" : fmt::format("a micro-batch of {} sequences", micro));
}

}  // namespace

void Draft::assume_site() {
  set("cluster.device", std::string("h100-sxm-80gb"));
  set("cluster.gpus", kNode);
  set(kBatch, kNode);
  set("batch.micro", std::int64_t{1});
  assumed_batch_ = kNode;
  assumed("cluster, parallelism", "one node of 8 H100, data parallel; --set cluster.gpus=N, parallelism.tensor=N, ...");
  assumed(kBatch, say_batch(kNode, 1));
}

void Draft::settle_batch() {
  if (assumed_batch_ == 0) return;
  const auto count = [&](const char* key) {
    const Settings* value = document_.find_path(key);
    return value != nullptr && value->is_scalar() ? value->as_int(0, 1'000'000'000) : 0;
  };
  const Settings* batch = document_.find_path(kBatch);
  if (batch == nullptr || batch->place().file != whole_.file) {  // somebody gave one
    forget(kBatch);
    return;
  }
  const std::int64_t gpus = count("cluster.gpus"), micro = std::max<std::int64_t>(1, count("batch.micro"));
  if (gpus == 0 || gpus * micro == assumed_batch_) return;
  forget(kBatch);
  set(kBatch, gpus * micro);
  assumed(kBatch, say_batch(gpus * micro, micro));
}

void Draft::drop_of_model(std::string_view key) {
  const Settings* model = document_.find("model");
  if (model == nullptr || !model->is_mapping()) return;
  Settings rest = *model;
  rest.erase(key);
  document_.set("model", std::move(rest));
}

bool Draft::has(std::string_view key) const {
  const Settings* node = &document_;
  while (node != nullptr && !key.empty()) {
    const std::size_t dot = key.find('.');
    node = node->is_mapping() ? node->find(key.substr(0, dot)) : nullptr;
    key = dot == std::string_view::npos ? std::string_view{} : key.substr(dot + 1);
  }
  return node != nullptr;
}

namespace {

/// Text that YAML reads back as the same text: plain where that is safe, else quoted.
std::string yaml_scalar(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./ +()").find(c) != std::string_view::npos;
  };
  const bool edge = !text.empty() && text.front() != ' ' && text.back() != ' ' && text.front() != '-';
  if (edge && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

/// On one line, as members of lists are written.
std::string flow_yaml(const Settings& node) {
  std::vector<std::string> parts;
  if (node.is_mapping()) {
    for (const auto& [name, member] : node.members()) parts.push_back(fmt::format("{}: {}", name, flow_yaml(member)));
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  if (node.is_sequence()) {
    for (const Settings& item : node.items()) parts.push_back(flow_yaml(item));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  return node.is_null() ? "null" : yaml_scalar(node.text());
}

void write_yaml(std::string& out, const Settings& node, int depth) {
  const std::string pad(static_cast<std::size_t>(2 * depth), ' ');
  for (const auto& [name, member] : node.members()) {
    if (member.is_mapping()) {
      out += pad + name + ":\n";
      write_yaml(out, member, depth + 1);
    } else if (member.is_sequence()) {
      out += fmt::format("{}{}: {}\n", pad, name, flow_yaml(member));
    } else {
      out += fmt::format("{}{}: {}\n", pad, name, member.is_null() ? "null" : yaml_scalar(member.text()));
    }
  }
}

}  // namespace

std::string remarks(const std::string& title, const std::vector<std::string>& lines, const std::string& mark) {
  if (lines.empty()) return {};
  std::string out = mark + title + "\n";
  for (const std::string& line : lines) out += wrapped(sim::printable(line), mark + "  ", mark + "    ");
  return out;
}

std::string Draft::yaml() const {
  std::string out = wrapped(fmt::format("Imported from {} by orrery import.", sim::printable(origin_)), "# ", "#   ");
  out += remarks("Not taken over:", ignored_, "# ");
  out += remarks("Not said there, to be checked:", assumed_, "# ");
  return out + values();
}

std::string Draft::values() const {
  // The order in which people read a scenario, whatever order the importer found things in.
  Settings sorted = Settings::mapping({});
  for (const char* key : {"name", "description", "source", "cluster", "model", "parallelism", "batch"}) {
    if (const Settings* member = document_.find(key); member != nullptr) sorted.set(key, *member);
  }
  for (const auto& [name, member] : document_.members()) {
    if (sorted.find(name) == nullptr) sorted.set(name, member);
  }
  std::string out;
  write_yaml(out, sorted, 0);
  return out;
}

std::string read_text(const std::string& file) {
  constexpr std::size_t kLargest = std::size_t{16} << 20;
  return sim::read_text(file, "a configuration", kLargest);
}

}  // namespace orrery::tools
