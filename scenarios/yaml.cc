// YAML text -> Settings.
//
// The parser's events are turned into the tree one at a time, so that every limit (depth, nodes, size) is enforced
// before the parser goes on: yaml-cpp descends recursively, and a depth of 64 here bounds its stack, whatever the text
// nests. Most documents are plain enough for scenarios/plain_yaml.h, and never see that parser. Of YAML 1.2 are left
// out, and refused: anchors, aliases and merge keys (a few lines of them can stand for billions of nodes; a named file
// with `inherits` does their work), tags, keys that are not text, and more than one document. Of others' files (a
// manifest, a trainer's configuration) repeats are taken, within the same limits: what an alias stands for is built
// once more, event by event.
#include "scenarios/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "scenarios/packed_documents.h"
#include "scenarios/plain_yaml.h"
#include "scenarios/scenario.h"
#include "sim/packed_settings.h"
#include "sim/printable.h"
#include "sim/text_file.h"

namespace orrery::scenarios {

using sim::Place;
using sim::Settings;
using sim::UserError;

namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kMostNodes = 200'000;  // of some 250 bytes each
constexpr std::size_t kMostMembers = 4096;   // of one mapping: finding a member is a linear search
constexpr std::size_t kLongestKey = 256;
constexpr std::size_t kMostMarks =
    600'000;  // brackets, commas and colons: the parser keeps a line's tokens, of some 200 bytes each
// Every node remembers its dotted path, rebuilt once per level: long keys around many nodes would cost gigabytes.
constexpr std::size_t kMostPathWork = std::size_t{128} << 20;

/// Refuses what is no text: control characters (a NUL above all), marks of direction, and bytes that are not UTF-8.
void refuse_binary(const std::string& text, const std::string& file) {
  if (sim::is_printable(text)) return;
  Place place{file, 1, 1};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sim::utf8_length(text, at);
    if (sim::is_obeyed(text, at)) {
      std::string bytes;
      for (std::size_t i = at; i < at + std::max<std::size_t>(length, 1); ++i)
        bytes += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text[i])));
      throw UserError(place, "",
                      fmt::format("got the {} 0x{}, expected YAML text in UTF-8 without control characters",
                                  length > 1 ? "bytes" : "byte", bytes));
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

/// Refuses text with more structure than any document has, before the parser gathers it: a flow collection is taken
/// apart as a whole before its first event. Marks in comments and prose count too; they are few.
void refuse_crowded(const std::string& text, const std::string& file) {
  if (text.size() <= kMostMarks) return;
  Place place{file, 1, 1};
  std::size_t marks = 0, line_begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '\n':
        ++place.line;
        line_begin = at + 1;
        break;
      case '[':
      case ']':
      case '{':
      case '}':
      case ',':
      case ':':
        ++marks;
        break;
      default:
        break;
    }
    if (marks <= kMostMarks) continue;
    place.column = static_cast<int>(at - line_begin) + 1;
    throw UserError(place, "", fmt::format("got more than {} brackets, commas and colons, expected fewer", kMostMarks));
  }
}

/// Of text that holds more than a tree may, whichever parser reads it.
class TooMuch : public UserError {
 public:
  using UserError::UserError;
};

/// Builds the tree from the parser's events.
class Builder : public YAML::EventHandler, public PlainEvents {
 public:
  Builder(std::string file, bool one_place, bool repeats = false)
      : file_(std::move(file)), one_place_(one_place), repeats_(repeats) {}

  Settings take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { OnScalar(mark, "?", anchor, ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (repeats_) return repeat(mark, anchor);
    fail(mark,
         "got an alias (*), which the language leaves out; repeat the value or give a file a name and inherit it");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    // What escapes make of text is seen here alone.
    if (!sim::is_printable(value)) fail(mark, "got text with a control character, expected printable text");
    begin_anchor(anchor);
    on_scalar(mark, value, tag == "!");
    end_anchor();
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    begin_anchor(anchor);
    on_begin(mark, true);
  }
  void OnSequenceEnd() override {
    on_end();
    end_anchor();
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    begin_anchor(anchor);
    on_begin(mark, false);
  }
  void OnMapEnd() override {
    on_end();
    end_anchor();
  }

  void on_scalar(const YAML::Mark& mark, std::string_view value, bool quoted) override {
    if (repeats_) record({Event::What::scalar, mark, std::string(value), quoted});
    count(mark);
    if (!stack_.empty() && stack_.back().node.is_mapping() && !stack_.back().has_key)
      take_key(mark, value.empty() && quoted && repeats_ ? "\"\"" : std::string(value));  // device_map: {"": 0}
    else
      deliver(Settings::scalar(std::string(value), member_place(mark), quoted));
  }
  void on_begin(const YAML::Mark& mark, bool sequence) override {
    if (repeats_) record({sequence ? Event::What::sequence : Event::What::mapping, mark, "", false});
    count(mark);
    if (!stack_.empty() && stack_.back().node.is_mapping() && !stack_.back().has_key) {
      fail(mark, "got a list or mapping as a key, or one that is never closed, expected a word");
    }
    if (stack_.size() >= kDeepest) fail(mark, fmt::format("nested deeper than {} levels", kDeepest));
    Frame frame;
    frame.node = sequence ? Settings::sequence(member_place(mark), next_path())
                          : Settings::mapping(member_place(mark), next_path());
    if (!stack_.empty()) {
      frame.path_length = stack_.back().path_length + (stack_.back().has_key ? stack_.back().key.size() + 1 : 8);
    }
    stack_.push_back(std::move(frame));
  }
  void on_end() override {
    if (repeats_) record({Event::What::end, {}, "", false});
    Settings done = std::move(stack_.back().node);
    stack_.pop_back();
    deliver(done.is_mapping() && done.find(kMerge) != nullptr ? merged(done) : std::move(done));
  }

 private:
  /// What an alias builds once more.
  struct Event {
    enum class What { scalar, sequence, mapping, end };
    What what = What::end;
    YAML::Mark mark;
    std::string value;
    bool quoted = false;
  };
  static constexpr const char* kMerge = "<<";

  /// Into every anchored node that is open.
  void record(const Event& event) {
    for (const YAML::anchor_t anchor : open_anchors_) {
      if (anchor == 0) continue;
      if (++recorded_ > kMostNodes)
        throw TooMuch(place(event.mark), key_in_hand(), fmt::format("more than {} values below anchors", kMostNodes));
      events_[anchor].push_back(event);
    }
  }
  /// Of every node, so that ends meet their beginnings; 0: without an anchor.
  void begin_anchor(YAML::anchor_t anchor) {
    if (repeats_) open_anchors_.push_back(anchor);
  }
  void end_anchor() {
    if (repeats_) open_anchors_.pop_back();
  }

  void repeat(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (std::find(open_anchors_.begin(), open_anchors_.end(), anchor) != open_anchors_.end())
      fail(mark, "got an alias (*) inside of what it stands for, expected one behind it");
    const std::vector<Event> events = events_[anchor];
    for (const Event& event : events) {
      switch (event.what) {
        case Event::What::scalar:
          on_scalar(mark, event.value, event.quoted);
          break;
        case Event::What::sequence:
          on_begin(mark, true);
          break;
        case Event::What::mapping:
          on_begin(mark, false);
          break;
        case Event::What::end:
          on_end();
          break;
      }
    }
  }

  /// A mapping with what it merges (`<<`, one mapping or a list of them): its own members hold, then the first's.
  Settings merged(const Settings& mapping) const {
    Settings out = Settings::mapping(mapping.place(), mapping.path());
    for (const auto& [name, member] : mapping.members())
      if (name != kMerge) out.set(name, member);
    const Settings& merges = mapping.at(kMerge);
    const std::vector<Settings> all = merges.is_sequence() ? merges.items() : std::vector<Settings>{merges};
    for (const Settings& each : all) {
      if (!each.is_mapping()) each.fail("expected a mapping, or a list of mappings, that is merged");
      for (const auto& [name, member] : each.members())
        if (out.find(name) == nullptr) out.set(name, member);
    }
    return out;
  }
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
    throw UserError(place(mark), key_in_hand(), message);
  }

  std::string key_in_hand() const { return stack_.empty() || !stack_.back().has_key ? "" : stack_.back().key; }

  /// Where the value that begins now will be held.
  std::string next_path() const {
    if (stack_.empty()) return "";
    const Frame& top = stack_.back();
    return top.node.is_sequence() ? top.node.path_of(top.node.items().size()) : top.node.path_of(top.key);
  }

  /// What the language leaves out of any node.
  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0 && !repeats_) {
      fail(mark,
           "got an anchor (&), which the language leaves out; repeat the value or give a file a name and inherit it");
    }
    if (!tag.empty() && tag != "?" && tag != "!")
      fail(mark, fmt::format("got the tag {}, which the language leaves out", tag));
  }

  /// Whether there is room for one more node.
  void count(const YAML::Mark& mark) {
    if (++nodes_ > kMostNodes)
      throw TooMuch(place(mark), key_in_hand(), fmt::format("more than {} values", kMostNodes));
    if (stack_.empty()) return;
    path_work_ += (stack_.back().path_length + 32) * stack_.size();
    if (path_work_ > kMostPathWork) fail(mark, "too many values below long keys");
  }

  void take_key(const YAML::Mark& mark, const std::string& value) {
    Frame& top = stack_.back();
    if (value.empty()) fail(mark, "got an empty key, expected a word");
    if (value == kMerge && !repeats_)
      fail(mark, "got a merge key (<<), which the language leaves out, expected inherits: NAME");
    if (value.size() > kLongestKey)
      fail(mark, fmt::format("got a key of {} characters, expected at most {}", value.size(), kLongestKey));
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

  sim::FileName file_;
  bool one_place_, repeats_;
  Settings root_;
  std::map<YAML::anchor_t, std::vector<Event>> events_;
  std::vector<YAML::anchor_t> open_anchors_;
  std::size_t recorded_ = 0;
  std::vector<Frame> stack_;
  std::size_t nodes_ = 0;
  std::size_t path_work_ = 0;
};

/// Nothing where the text is not plain, or wrong: parse_whole() says how.
std::optional<Settings> parse_plain(const std::string& text, const std::string& file_name, bool one_place) {
  Builder builder(file_name, one_place);
  try {
    if (read_plain_yaml(text, builder)) return builder.take();
  } catch (const TooMuch&) {
    throw;
  } catch (const UserError&) {
  }
  return std::nullopt;
}

Settings parse_whole(const std::string& text, const std::string& file_name, bool one_place, bool repeats = false) {
  Builder builder(file_name, one_place, repeats);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return {};
    Settings document = builder.take();
    Builder second(file_name, one_place, repeats);
    if (parser.HandleNextDocument(second)) {
      throw UserError(Place{file_name, 0, 0}, "", "got more than one YAML document, expected one");
    }
    return document;
  } catch (const YAML::Exception& error) {
    Place place{file_name, 0, 0};
    if (!one_place && !error.mark.is_null()) place = {file_name, error.mark.line + 1, error.mark.column + 1};
    throw UserError(place, "", fmt::format("is not YAML: {}", error.msg));
  }
}

Settings parse(const std::string& text, const std::string& file_name, bool one_place, bool repeats = false) {
  if (text.size() > sim::kLargestText) {
    throw UserError(Place{file_name, 0, 0}, "",
                    fmt::format("got more than {} MiB, expected a YAML file", sim::kLargestText >> 20));
  }
  refuse_binary(text, file_name);
  refuse_crowded(text, file_name);
  std::optional<Settings> plain = parse_plain(text, file_name, one_place);
  return plain ? *std::move(plain) : parse_whole(text, file_name, one_place, repeats);
}

}  // namespace

Settings parse_yaml(const std::string& text, const std::string& file_name) { return parse(text, file_name, false); }

std::optional<Settings> parse_plain_yaml(const std::string& text, const std::string& file_name) {
  return sim::is_printable(text) ? parse_plain(text, file_name, false) : std::nullopt;
}

Settings parse_whole_yaml(const std::string& text, const std::string& file_name) {
  return parse_whole(text, file_name, false);
}

Settings parse_yaml_value(const std::string& text, const std::string& source) { return parse(text, source, true); }

Settings parse_yaml_of_others(const std::string& text, const std::string& file_name) {
  return parse(text, file_name, false, true);
}

Settings read_yaml(const std::string& file) {
  const sim::TextBlock block = sim::read_block(file, "a YAML file");
  if (const std::optional<PackedFile> known = packed_file(block.text()))
    return sim::unpacked(known->bytes, sim::FileName(file), known->checked_as);
  return parse_yaml(std::string(block.text()), file);
}

}  // namespace orrery::scenarios
