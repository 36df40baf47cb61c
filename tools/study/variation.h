// What a study varies: keys of the scenario language with the values that each takes, and their cross product.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace orrery::tools {

/// One key and its values, as typed and as read.
struct Variation {
  std::string key;
  std::vector<std::string> texts;
  std::vector<scenarios::Assignment> assignments;  // one per text
};

/// "key.path=v1,v2,..." where a value is YAML (commas within brackets and quotes are its own), or a range of numbers
/// BEGIN:END:FACTOR (BEGIN, BEGIN x FACTOR, ... up to END) or BEGIN:END:+STEP. Throws sim::UserError at "--vary" for
/// keys that the language does not have (naming the nearest), no values, values given twice, and ranges that make more
/// than kMostValues.
Variation parse_variation(const std::string& text);
inline constexpr std::size_t kMostValues = 100'000;

/// The cross product of variations, numbered from 0, the first variation slowest.
class Product {
 public:
  /// Throws sim::UserError for none, for a key given twice, and for more than `limit` points, saying how many.
  Product(std::vector<Variation> variations, std::size_t limit);
  std::size_t size() const { return size_; }
  const std::vector<Variation>& variations() const { return variations_; }
  /// For each variation which of its values point `index` has.
  std::vector<std::size_t> choices(std::size_t index) const;
  /// The values of a point as typed.
  std::vector<std::string> texts(std::size_t index) const;
  /// Lays a point over a document. Throws sim::UserError where the document has no place for it.
  void apply(std::size_t index, sim::Settings& document) const;

 private:
  std::vector<Variation> variations_;
  std::size_t size_ = 1;
};

}  // namespace orrery::tools
