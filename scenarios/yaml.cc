// YAML text -> Settings.
//
// The parser's events are turned into the tree one at a time, so that every limit (depth, nodes, size) is enforced
// before the parser goes on: yaml-cpp descends recursively, and a depth of 64 here bounds its stack, whatever the text
// nests. Of YAML 1.2 are left out, and refused: anchors, aliases and merge keys (a few lines of them can stand for
// billions of nodes; a named file with `inherits` does their work), tags, keys that are not text, and more than one
// document.
#include "scenarios/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>

#include "scenarios/scenario.h"

namespace orrery::scenarios {

using sim::Place;
using sim::Settings;
using sim::UserError;

namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kMostNodes = 1'000'000;
constexpr std::size_t kMostMembers = 4096;  // of one mapping: finding a member is a linear search
constexpr std::size_t kLongestKey = 256;
constexpr std::size_t kLargestText = std::size_t{64} << 20;
// Every node remembers its dotted path, rebuilt once per level: long keys around many nodes would cost gigabytes.
constexpr std::size_t kMostPathWork = std::size_t{512} << 20;

/// Length of the UTF-8 sequence that begins at `at`; 0 when it is none (RFC 3629, without overlong forms and
/// surrogates).
std::size_t utf8_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(at + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if ((first == 0xe0 && byte(at + 1) < 0xa0) || (first == 0xed && byte(at + 1) > 0x9f)) return 0;
    return follows(at + 1) && follows(at + 2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if ((first == 0xf0 && byte(at + 1) < 0x90) || (first == 0xf4 && byte(at + 1) > 0x8f)) return 0;
    return follows(at + 1) && follows(at + 2) && follows(at + 3) ? 4 : 0;
  }
  return 0;
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
}

/// Refuses what is no text: control characters (a NUL above all) and bytes that are not UTF-8.
void refuse_binary(const std::string& text, const std::string& file) {
  Place place{file, 1, 1};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0 || is_control(text[at])) {
      throw UserError(place, "",
                      fmt::format("read the byte 0x{:02x}; YAML text in UTF-8 would be right",
                                  static_cast<unsigned>(static_cast<unsigned char>(text[at]))));
    }
    if (text[at] == '\n') {
      ++place.line;
      place.column = 1;
    } else {
      ++place.column;
    }
    at += length;
  }
}

/// Builds the tree from the parser's events.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string file, bool one_place) : file_(std::move(file)), one_place_(one_place) {}

  Settings take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { scalar(mark, "?", anchor, "", false); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark,
         "read an alias (*), which the language leaves out; repeat the value or give a file a name and inherit it");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    scalar(mark, tag, anchor, value, tag == "!");
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, true);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, false);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Settings node;
    bool has_key = false;
    std::string key;
    Place key_place;
    std::size_t path_length = 0;
  };

  Place place(const YAML::Mark& mark) const {
    if (one_place_) return {file_, 0, 0};
    return {file_, mark.line + 1, mark.column + 1};
  }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
    throw UserError(place(mark), stack_.empty() || !stack_.back().has_key ? "" : stack_.back().key, message);
  }

  void scalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value,
              bool quoted) {
    check(mark, tag, anchor);
    if (std::any_of(value.begin(), value.end(), is_control)) {
      fail(mark, "read text with a control character; printable text would be right");
    }
    if (!stack_.empty() && stack_.back().node.is_mapping() && !stack_.back().has_key) {
      take_key(mark, value);
      return;
    }
    deliver(Settings::scalar(value, member_place(mark), quoted));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, bool sequence) {
    check(mark, tag, anchor);
    if (!stack_.empty() && stack_.back().node.is_mapping() && !stack_.back().has_key) {
      fail(mark, "read a list or mapping as a key, or one that is never closed; a word would be right");
    }
    if (stack_.size() >= kDeepest) fail(mark, fmt::format("nested deeper than {} levels", kDeepest));
    Frame frame;
    frame.node = sequence ? Settings::sequence(member_place(mark)) : Settings::mapping(member_place(mark));
    if (!stack_.empty()) {
      frame.path_length = stack_.back().path_length + (stack_.back().has_key ? stack_.back().key.size() + 1 : 8);
    }
    stack_.push_back(std::move(frame));
  }

  void close() {
    Settings done = std::move(stack_.back().node);
    stack_.pop_back();
    deliver(std::move(done));
  }

  /// What holds for every node: no anchor, no tag, room for one more.
  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) {
      fail(mark,
           "read an anchor (&), which the language leaves out; repeat the value or give a file a name and inherit it");
    }
    if (!tag.empty() && tag != "?" && tag != "!")
      fail(mark, fmt::format("read the tag {}, which the language leaves out", tag));
    if (++nodes_ > kMostNodes) fail(mark, fmt::format("more than {} values", kMostNodes));
    if (stack_.empty()) return;
    path_work_ += (stack_.back().path_length + 32) * stack_.size();
    if (path_work_ > kMostPathWork) fail(mark, "too many values below long keys");
  }

  void take_key(const YAML::Mark& mark, const std::string& value) {
    Frame& top = stack_.back();
    if (value.empty()) fail(mark, "read an empty key; a word would be right");
    if (value == "<<")
      fail(mark, "read a merge key (<<), which the language leaves out; inherits: NAME would be right");
    if (value.size() > kLongestKey)
      fail(mark, fmt::format("read a key of {} characters; at most {} would be right", value.size(), kLongestKey));
    if (top.node.members().size() >= kMostMembers)
      fail(mark, fmt::format("more than {} keys in one mapping", kMostMembers));
    for (const auto& [name, member] : top.node.members()) {
      if (name == value) {
        throw UserError(place(mark), value, fmt::format("given twice, first in line {}", member.place().line));
      }
    }
    top.key = value;
    top.key_place = place(mark);
    top.has_key = true;
  }

  /// Members are found by their key, so a complaint points at the key; items and the root at their own beginning.
  Place member_place(const YAML::Mark& mark) const {
    return !stack_.empty() && stack_.back().has_key ? stack_.back().key_place : place(mark);
  }

  void deliver(Settings value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& top = stack_.back();
    if (top.node.is_sequence()) {
      top.node.append(std::move(value));
    } else {
      top.node.set(std::move(top.key), std::move(value));
      top.has_key = false;
      top.key.clear();
    }
  }

  std::string file_;
  bool one_place_;
  Settings root_;
  std::vector<Frame> stack_;
  std::size_t nodes_ = 0;
  std::size_t path_work_ = 0;
};

Settings parse(const std::string& text, const std::string& file_name, bool one_place) {
  if (text.size() > kLargestText) {
    throw UserError(Place{file_name, 0, 0}, "", fmt::format("larger than {} MiB", kLargestText >> 20));
  }
  refuse_binary(text, file_name);
  Builder builder(file_name, one_place);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return {};
    Settings document = builder.take();
    Builder second(file_name, one_place);
    if (parser.HandleNextDocument(second)) {
      throw UserError(Place{file_name, 0, 0}, "", "holds more than one YAML document; one would be right");
    }
    return document;
  } catch (const YAML::Exception& error) {
    Place place{file_name, 0, 0};
    if (!one_place && !error.mark.is_null()) place = {file_name, error.mark.line + 1, error.mark.column + 1};
    throw UserError(place, "", fmt::format("is not YAML: {}", error.msg));
  }
}

}  // namespace

Settings parse_yaml(const std::string& text, const std::string& file_name) { return parse(text, file_name, false); }

Settings parse_yaml_value(const std::string& text, const std::string& source) { return parse(text, source, true); }

Settings read_yaml(const std::string& file) {
  const Place place{file, 0, 0};
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    throw UserError(place, "", "is a directory; a YAML file would be right");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rb"), &std::fclose);
  if (stream == nullptr) throw UserError(place, "", fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text;
  char buffer[1 << 16];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, stream.get())) {
    text.append(buffer, got);
    if (text.size() > kLargestText) break;  // a device such as /dev/zero has no end
  }
  if (std::ferror(stream.get()) != 0)
    throw UserError(place, "", fmt::format("cannot be read: {}", std::strerror(errno)));
  return parse_yaml(text, file);
}

}  // namespace orrery::scenarios
