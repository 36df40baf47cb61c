// The language's table as JSON Schema (draft 2020-12, https://json-schema.org/draft/2020-12/schema) and as help texts.
// The schema says shapes, choices and meanings; what holds between keys (divisibility, sizes) only the loader knows.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "calibration/framework/software.h"
#include "scenarios/schema.h"
#include "scenarios/synonyms.h"
#include "sim/settings.h"

namespace orrery::scenarios {

namespace {

/// The keys as a tree: a path part -> what lies below it.
struct Node {
  const Key* key = nullptr;
  std::vector<struct Member> members;
  bool list_item = false;  // "name[]": its members are those of an item

  Node& member(const std::string& name);
};

struct Member {
  std::string name;
  Node node;
};

Node& Node::member(const std::string& name) {
  for (auto& [known, node] : members) {
    if (known == name) return node;
  }
  members.push_back({name, {}});
  return members.back().node;
}

Node build_tree() {
  Node root;
  for (const Key& key : schema()) {
    Node* node = &root;
    std::string_view rest = key.path;
    while (!rest.empty()) {
      const std::size_t dot = rest.find('.');
      std::string name(rest.substr(0, dot));
      const bool item = name.ends_with("[]");
      if (item) name.resize(name.size() - 2);
      node = &node->member(name);
      node->list_item = node->list_item || item;
      rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
    }
    node->key = &key;
  }
  // Keys of a generation's blocks may stand without these.
  const std::string prefix = "software.";
  Node& software = root.member("software");
  for (const Key& key : schema()) {
    if (!key.path.starts_with(prefix)) continue;
    const std::string place = key.path.substr(prefix.size()), name = place.substr(place.find('.') + 1);
    if (name != place && calibration::present_key(name) == place) software.member(name).key = &key;
  }
  return root;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string words(const std::vector<std::string>& choices) {
  std::vector<std::string> all;
  for (const std::string& choice : choices) all.push_back(json_string(choice));
  return fmt::format("{}", fmt::join(all, ", "));
}

bool is_required(const Node& node) { return node.key != nullptr && node.key->fallback.empty(); }

/// The document below a name may leave everything to what it inherits.
bool inherits(const Node& node) {
  return std::any_of(node.members.begin(), node.members.end(), [](const auto& m) { return m.name == "inherits"; });
}

std::string json_of(const Node& node, int depth);

std::string object_of(const Node& node, int depth) {
  const std::string pad(static_cast<std::size_t>(2 * depth + 2), ' ');
  std::string properties, needed;
  std::string rest = "false";
  for (const auto& [name, member] : node.members) {
    if (name == "*") {
      rest = json_of(member, depth + 1);
      continue;
    }
    properties +=
        fmt::format("{}\n{}{}: {}", properties.empty() ? "" : ",", pad, json_string(name), json_of(member, depth + 1));
    if (is_required(member) && !inherits(node)) needed += (needed.empty() ? "" : ", ") + json_string(name);
  }
  return fmt::format(R"("type": "object", "additionalProperties": {}, "required": [{}], "properties": {{{}}})", rest,
                     needed, properties);
}

/// What a quantity of that unit looks like, as sim::Settings reads it: "400 Gb/s", "80 GB", "5 us".
std::string pattern_of(const std::string& unit) {
  const std::string number = R"(^[+]?[0-9]*[.]?[0-9]+([eE][+-]?[0-9]+)? *)";
  const std::string prefix = "([kKMGTPE]|[KMGTPE]i)?";
  if (unit == "bytes") return number + prefix + "B$";
  if (unit == "bytes/s") return number + prefix + "([bB]/s|[bB]ps|bit/s)$";
  if (unit == "FLOP/s") return number + prefix + "(FLOPs?/s|FLOPS|FLOPs|flops|flop/s)$";
  if (unit == "time") return number + "(ps|ns|us|ms|s|sec|seconds?|min|minutes?|h|hours?|d|days?|weeks?|years?)$";
  if (unit == "s") return number + "(ps|ns|us|ms|s|[num]?sec|seconds?|min|minutes?|h|hours?)$";
  return number + ".+$";
}

/// The default as a JSON value, where it is one and not a rule.
std::string default_of(const Key& key) {
  const std::string& text = key.fallback;
  if (key.type == "boolean" && (text == "true" || text == "false")) return text;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if ((key.type == "integer" || key.type == "number") && digits) return text;
  const bool chosen = std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end();
  if (key.type == "choice" && chosen) return json_string(text);
  return "";
}

/// One alternative for the plain value of a key; a quantity is text with a number and a unit.
std::string plain_of(const Key& key) {
  if (key.type == "integer" || key.type == "number") {
    std::string bounds;
    if (!key.bounds.low.empty()) bounds += fmt::format(R"(, "minimum": {})", key.bounds.low);
    if (!key.bounds.high.empty()) bounds += fmt::format(R"(, "maximum": {})", key.bounds.high);
    return fmt::format(R"({{"type": "{}"{}}})", key.type, bounds);
  }
  if (key.type == "boolean") return R"({"type": "boolean"})";
  if (key.type == "quantity")
    return fmt::format(R"({{"type": "string", "pattern": {}}})", json_string(pattern_of(key.unit)));
  if (key.type == "choice" && !key.choices.empty()) return fmt::format(R"({{"enum": [{}]}})", words(key.choices));
  if (key.type == "list") {
    return key.choices.empty() ? R"({"type": "array"})"
                               : fmt::format(R"({{"type": "array", "items": {{"enum": [{}]}}}})", words(key.choices));
  }
  return R"({"type": ["string", "number", "boolean"]})";
}

std::string json_of(const Node& node, int depth) {
  std::vector<std::string> alternatives;
  if (node.list_item) {
    alternatives.push_back(fmt::format(R"({{"type": "array", "items": {{{}}}}})", object_of(node, depth)));
  } else {
    if (!node.members.empty()) alternatives.push_back(fmt::format("{{{}}}", object_of(node, depth)));
    if (node.key != nullptr && node.key->type == "mapping") {
      // `overlap: true` sets all of its flags.
      alternatives.emplace_back(node.members.empty() ? R"({"type": "object"})" : R"({"type": "boolean"})");
    }
    if (node.key != nullptr && node.key->type != "mapping") alternatives.push_back(plain_of(*node.key));
  }
  if (!is_required(node)) alternatives.emplace_back(R"({"enum": [null, "unknown"]})");
  std::string head;
  if (node.key != nullptr) {
    std::string meaning = node.key->meaning;
    if (!node.key->unit.empty()) meaning += fmt::format(" Unit: {}.", node.key->unit);
    if (node.key->bounds.given()) meaning += fmt::format(" Bounds: {}.", text(node.key->bounds));
    if (!node.key->fallback.empty() && node.key->fallback != "-")
      meaning += fmt::format(" Default: {}.", node.key->fallback);
    head = fmt::format(R"("description": {}, )", json_string(meaning));
    if (const std::string value = default_of(*node.key); !value.empty())
      head += fmt::format(R"("default": {}, )", value);
  }
  return fmt::format(R"({{{}"anyOf": [{}]}})", head, fmt::join(alternatives, ", "));
}

std::string describe(const Key& key) {
  std::string out = fmt::format("{}: {}\n  type: {}{}\n", key.path, key.meaning, key.type,
                                key.unit.empty() ? "" : fmt::format(" ({})", key.unit));
  if (!key.choices.empty()) out += fmt::format("  one of: {}\n", fmt::join(key.choices, ", "));
  if (key.bounds.given()) out += fmt::format("  bounds: {}\n", text(key.bounds));
  if (key.fallback.empty())
    out += "  required\n";
  else
    out += fmt::format("  default: {}\n", key.fallback == "-" ? "none" : key.fallback);
  return out;
}

/// Whether `path` is `word` or ends with it as its last parts.
bool ends_at(const std::string& path, const std::string& word) { return path == word || path.ends_with("." + word); }

}  // namespace

std::string json_schema() {
  const Node root = build_tree();
  return fmt::format(R"({{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "orrery scenario", {}}})",
                     object_of(root, 0)) +
         "\n";
}

std::string help(const std::string& key) {
  std::string out;
  const auto print = [&](auto matches) {
    for (const Key& row : schema()) {
      if (matches(row.path)) out += describe(row);
    }
  };
  print([&](const std::string& path) { return path == key; });
  if (out.empty()) print([&](const std::string& path) { return ends_at(path, key); });
  if (!out.empty()) {
    const std::vector<std::string>& members = known_keys(key);
    const std::vector<std::string>& below = members.empty() ? known_keys(key + "[]") : members;
    if (!below.empty()) out += fmt::format("  keys below: {}\n", fmt::join(below, ", "));
    return out;
  }
  if (const std::string meant = key_meant(key); meant != key) return help(meant);
  if (const std::string prefix = "software."; key.starts_with(prefix)) {
    const std::string place = calibration::present_key(key.substr(prefix.size()));
    if (prefix + place != key) return help(prefix + place);
  }
  if (const std::string of = key_of_value(key); !of.empty())
    return fmt::format("{} is {} of {}.\n", key, value_meant(of, key), of) + help(of);
  // The last part alone is what people remember: look for near misses of whole paths first, then of names.
  std::vector<std::string> paths, names;
  for (const Key& row : schema()) {
    paths.push_back(row.path);
    names.push_back(row.path.substr(row.path.rfind('.') + 1));
  }
  std::string nearest = sim::nearest_word(key, key.find('.') == std::string::npos ? names : paths);
  if (nearest.empty()) nearest = sim::nearest_word(key, paths);
  throw sim::UserError(fmt::format(
      "help: {}: there is no such key{}", key,
      nearest.empty() ? "; orrery schema lists all of them" : fmt::format("; did you mean \"{}\"?", nearest)));
}

}  // namespace orrery::scenarios
