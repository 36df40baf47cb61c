// The keys of a document as a table: one row per key, with its type, unit, bounds, default and meaning. Whoever reads
// a document checks it by its table first; help, the JSON Schema, completion and refusals print the same rows, so that
// no number can be read that is not documented, and none that a simulation could not hold.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <string_view>
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
  struct Range {
    double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  };
  /// Refuses a member that is none of `known` but a key elsewhere: the last part of a path is what people remember.
  void refuse_misplaced(const Settings& document, const std::vector<std::string>& known) const;
  void check_member(const Settings& value, const std::string& path) const;
  void check_scalar(const Settings& value, std::size_t row) const;
  bool is_absent(const Settings& value) const;
  void check_number(const Settings& value, std::size_t row) const;

  std::vector<Key> rows_;
  std::vector<Range> ranges_;  // of rows_, in base units: bytes, bytes/s, FLOP/s, picoseconds
  std::map<std::string, std::size_t, std::less<>> row_of_;
  std::map<std::string, std::vector<std::string>, std::less<>> names_;
  std::string absent_word_;
};

/// "1 Gb/s to 100 Tb/s", "at least 1", "at most 10"; empty where there are none.
std::string text(const Bounds& bounds);

}  // namespace orrery::sim
