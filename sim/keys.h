// The keys of a document as a table: one row per key, with its type, unit, bounds, default and meaning. Whoever reads
// a document checks it by its table first; help, the JSON Schema, completion and refusals print the same rows, so that
// no number can be read that is not documented, and none that a simulation could not hold.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sim/settings.h"

namespace orrery::sim {

/// The least and the most that a number may be, as a document would write them ("1 Gb/s"); empty: open. Of a list they
/// hold for every number in it. They leave room for hardware to come and none for misprints.
struct Bounds {
  std::string_view low = {}, high = {};
  bool given() const { return !low.empty() || !high.empty(); }
};

struct Key {
  /// "parallelism.tensor"; "slow_gpus[].gpu" for a member of each item of a list; "nic_rate.*" for a free name.
  std::string path;
  /// "integer" | "number" | "boolean" | "text" | "choice" | "quantity" | "list" | "mapping" | "name" (of a document)
  std::string type;
  /// "GPUs", "sequences", ...; of quantities "bytes", "bytes/s", "FLOP/s", "s", "W", "J"; empty when it has none.
  std::string unit;
  std::string fallback;  // the documented default, as text; empty: required; "-": absent means none
  std::vector<std::string> choices;
  std::string meaning;  // one sentence
  Bounds bounds = {};
};

class KeyTable {
 public:
  /// Bounds are read as a document's values are; a row whose bounds cannot be read is our own mistake. A value that is
  /// `absent_word` counts as left out.
  explicit KeyTable(std::vector<Key> rows, std::string absent_word = {});
  KeyTable(KeyTable&&) = default;  // rows stay where they are; a copy's would not be those that are looked up
  KeyTable(const KeyTable&) = delete;

  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }
  std::size_t size() const { return rows_.size(); }
  const Key* find(std::string_view path) const;
  /// The names of the members that may lie below `path`: "" for the document, "slow_gpus[]" for an item of a list.
  const std::vector<std::string>& names_below(std::string_view path) const;

  /// Walks `document`, which stands at `path` of the table. Throws UserError at a member that no row names, and at a
  /// number outside its row's bounds. Documents that a row of type "name" refers to, and shapes that do not fit the
  /// row (a list for a number), are left to who reads them.
  void check(const Settings& document, std::string_view path = {}) const;

 private:
  /// How the value of a row is read.
  enum class Form : std::uint8_t { other, integer, number, quantity };
  /// What a row asks of a value.
  struct Rule {
    Form form = Form::other;  // of a list with bounds, that of its items
    bool list = false, name = false;
    double low = -std::numeric_limits<double>::infinity(),
           high = std::numeric_limits<double>::infinity();  // base units
  };
  using RowOf = std::unordered_map<std::string_view, std::size_t>;
  static Rule rule_of(const Key& key);
  static double number_of(const Settings& value, Form form, std::string_view unit);
  void read_bounds();
  void list_names(std::string_view path, std::unordered_set<std::string_view>& listed);
  /// Refuses a member that is none of `known` but a key elsewhere: the last part of a path is what people remember.
  void refuse_misplaced(const Settings& document, const std::vector<std::string>& known) const;
  void check_member(const Settings& value, const std::string& path) const;
  void check_scalar(const Settings& value, std::size_t row) const;
  bool is_absent(const Settings& value) const;

  std::vector<Key> rows_;
  std::vector<Rule> rules_;                                               // of rows_
  RowOf row_of_;                                                          // by path, which lies in rows_
  std::unordered_map<std::string_view, std::vector<std::string>> names_;  // below a path that is the beginning of one
  std::string absent_word_;
};

/// "1 Gb/s to 100 Tb/s", "at least 1", "at most 10"; empty where there are none.
std::string text(const Bounds& bounds);

}  // namespace orrery::sim
