// Settings: a document as a tree of text values that remember where they were read. The scenario language, device
// profiles, fabrics, models and software generations all arrive as Settings; whoever owns a value reads it from here,
// so that every complaint can name file, line, column and key. Knows nothing of YAML: scenarios/ builds the trees.
// Copies share what they hold until one of them changes, so that thousands of scenarios over one document cost nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/error.h"
#include "sim/units.h"

namespace orrery::sim {

class Settings {
 public:
  enum class Kind : std::uint8_t { null, scalar, sequence, mapping };

  Settings() = default;
  /// Unquoted text that is empty, "~" or "null" makes a null.
  static Settings scalar(std::string text, Place place, bool quoted = false);
  /// Empty. `path` is where the parent will hold it, if that is known yet.
  static Settings sequence(Place place, std::string path = "");
  static Settings mapping(Place place, std::string path = "");

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_scalar() const { return kind_ == Kind::scalar; }
  bool is_sequence() const { return kind_ == Kind::sequence; }
  bool is_mapping() const { return kind_ == Kind::mapping; }
  const Place& place() const { return place_; }
  /// The dotted path from the root of its document, as in "parallelism.tensor".
  std::string path() const;

  const std::string& text() const { return text_; }
  const std::vector<Settings>& items() const;
  /// How many items there are. As as_numbers(), it needs none of them where a list of numbers was unpacked.
  std::size_t item_count() const;
  const std::vector<std::pair<std::string, Settings>>& members() const;
  /// The path that a member of that name has here, or the item of that index.
  std::string path_of(std::string_view key) const;
  std::string path_of(std::size_t item) const;

  /// Whether both are copies of one value, read at one place, that nobody has changed since. Takes no look at what they
  /// hold: two readings of one file are not the same.
  bool same_as(const Settings& other) const;
  /// Of a list or a mapping that was unpacked (sim/packed_settings.h), and that nobody has changed or moved since: what
  /// its document was found to be right as when it was packed, which need not be looked at again. Empty for all others.
  std::string_view checked_as() const;

  /// The member of that name, or nullptr when it is absent or null (the language treats both alike).
  const Settings* find(std::string_view key) const;
  /// The value at a dotted path ("cluster.gpus"), or nullptr where it, or a mapping on the way, is absent; this node
  /// where the path is empty.
  const Settings* find_path(std::string_view dotted) const;
  /// As find, but a missing member is the user's error.
  const Settings& at(std::string_view key) const;

  void append(Settings item);
  void set(std::string key, Settings value);  // replaces an existing member
  void erase(std::string_view key);           // the member of that name, where there is one
  /// Sets the value at a dotted path, making mappings on the way ("cluster.gpus" = 16); the user's error when the path
  /// crosses a scalar.
  void set_path(std::string_view dotted, Settings value);

  /// Throws UserError at this node.
  [[noreturn]] void fail(const std::string& message) const;
  /// Throws UserError at this node: "got X, expected Y", X being what was read.
  [[noreturn]] void expected(const std::string& what) const;

  // Readers of a scalar; each throws UserError naming what was read and what was expected.
  std::int64_t as_int(std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                      std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;
  double as_number(double low = -std::numeric_limits<double>::infinity(),
                   double high = std::numeric_limits<double>::infinity()) const;
  /// The items of a list, each as as_number() reads it.
  std::vector<double> as_numbers() const;
  bool as_bool() const;
  /// One of `choices`; an unknown word is answered with the nearest of them.
  std::string as_choice(const std::vector<std::string>& choices) const;
  Bytes as_bytes() const;          // "80 GB" (1e9), "80 GiB", "512 MB", "4096 B"
  Bandwidth as_bandwidth() const;  // "400 Gb/s" (bits), "3.35 TB/s" (bytes), "25 GB/s"
  FlopRate as_flop_rate() const;   // "989 TFLOP/s"
  Duration as_duration() const;    // "5 us", "130 ns", "1.2 ms", "2 s"
  double as_watts() const;         // "700 W", "1.2 kW"
  double as_joules() const;        // "0.9 pJ", "12 nJ"

  // Readers of optional members: the default when absent or null.
  std::int64_t get_int(std::string_view key, std::int64_t fallback,
                       std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;
  double get_number(std::string_view key, double fallback, double low = -std::numeric_limits<double>::infinity(),
                    double high = std::numeric_limits<double>::infinity()) const;
  bool get_bool(std::string_view key, bool fallback) const;
  std::string get_text(std::string_view key, std::string fallback) const;
  std::string get_choice(std::string_view key, std::string fallback, const std::vector<std::string>& choices) const;
  Duration get_duration(std::string_view key, Duration fallback) const;
  Bandwidth get_bandwidth(std::string_view key, Bandwidth fallback) const;

  /// Refuses every member whose name is not in `known`, naming the nearest known one.
  void refuse_unknown(const std::vector<std::string>& known) const;

 private:
  friend class Unpacking;
  struct Children;

  Children& own_children();
  void move_to(std::string path);
  void move_into(const std::shared_ptr<const std::string>& list, std::size_t item);

  Kind kind_ = Kind::null;
  bool quoted_ = false;
  std::uint32_t item_ = 0;  // of list_
  Place place_;
  std::string path_;
  std::shared_ptr<const std::string> list_;  // the path of the list that a plain item lies in, in place of path_
  std::string text_;
  std::shared_ptr<Children> children_;  // of a sequence or a mapping; null: none; shared by copies
};

/// The candidate with the smallest edit distance to `word`; empty when none is near (distance above a third of it).
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

/// `base` with `changes` laid over it: mappings merge member by member, anything else is replaced. Used for inheritance
/// (a software generation inherits an older one) and for --set.
Settings overlay(const Settings& base, const Settings& changes);

}  // namespace orrery::sim
