// Writes YAML. Scalars stay plain where no reader could take them for anything else, else they are double-quoted. Left
// out: comments, which Settings do not keep, and line breaking of long texts.
#include "scenarios/yaml_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::scenarios {

namespace {

constexpr std::size_t kWidth = 110;

bool is_plain(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return false;
  const auto inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == '+' || c == '-' || c == ' ' || c == '(' || c == ')' || c == ';';
  };
  const auto outer = [&](char c) { return inner(c) && c != ' '; };
  if (!std::all_of(text.begin(), text.end(), inner) || !outer(text.front()) || !outer(text.back())) return false;
  return text.front() != '-' || (text.size() > 1 && text[1] >= '0' && text[1] <= '9');
}

std::string scalar_text(const std::string& text) {
  if (is_plain(text)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

/// On one line.
std::string flow_text(const sim::Settings& value) {
  switch (value.kind()) {
    case sim::Settings::Kind::null:
      return "null";
    case sim::Settings::Kind::scalar:
      return scalar_text(value.text());
    case sim::Settings::Kind::sequence: {
      std::string text = "[";
      for (const sim::Settings& item : value.items()) text += (text.size() > 1 ? ", " : "") + flow_text(item);
      return text + "]";
    }
    case sim::Settings::Kind::mapping: {
      std::string text = "{";
      for (const auto& [key, member] : value.members())
        text += (text.size() > 1 ? ", " : "") + scalar_text(key) + ": " + flow_text(member);
      return text + "}";
    }
  }
  return {};
}

void write_block(std::string& out, const sim::Settings& value, std::size_t indent);

/// What stands behind a key or a dash: on the same line where it fits, else a block of its own.
void write_member(std::string& out, const sim::Settings& value, std::size_t indent) {
  const bool nested =
      (value.is_mapping() && !value.members().empty()) || (value.is_sequence() && !value.items().empty());
  const std::string flow = flow_text(value);
  if (!nested || indent + flow.size() <= kWidth) {
    out += " " + flow + "\n";
    return;
  }
  out += "\n";
  write_block(out, value, indent + 2);
}

void write_block(std::string& out, const sim::Settings& value, std::size_t indent) {
  const std::string margin(indent, ' ');
  for (const auto& [key, member] : value.members()) {
    out += margin + scalar_text(key) + ":";
    write_member(out, member, indent);
  }
  for (const sim::Settings& item : value.items()) {
    out += margin + "-";
    write_member(out, item, indent);
  }
}

}  // namespace

std::string yaml_text(const sim::Settings& document) {
  const bool block =
      (document.is_mapping() && !document.members().empty()) || (document.is_sequence() && !document.items().empty());
  if (!block) return flow_text(document) + "\n";
  std::string out;
  write_block(out, document, 0);
  return out;
}

}  // namespace orrery::scenarios
