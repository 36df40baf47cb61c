// Which kernels a part of a layer is, as data: a file of calibration/recipes holds the variants of one part, each with
// its source, the lines that it runs forward and backward over sizes with names, and what it keeps. What a framework
// runs is then one word (`recipe: {rotary: in_steps}`), and a habit that no framework had before is one more variant.
// The idea is LLVM's InstRW, which maps an instruction to a list of writes: what runs, and not who measured it.
//
//   - rotate in fp32: copy q+kv 8 if not fused
//     name            kernel, elements, bytes each, and on what it hangs
//   - positions of chunks: copy 1 8 times 9ranks
//     so many such kernels
//
// Elements and bytes are sums of products of numbers and sizes (3e+2gates*e), conditions sizes that are not 0. A kernel
// is one of those bound by memory (kernel.h) or a collective of the part's group. Backward lines stand in the order in
// which they run. Left out: products and attention, whose kernels depend on shapes, and what a framework decides beside
// its kernels (what is kept, dropped out, overlapped, padded): those are keys of their own (software.h).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "calibration/device/kernel.h"
#include "calibration/device/profile.h"
#include "sim/settings.h"

namespace orrery::calibration {

/// What has recipes: a file each, by the name of the part.
enum class RecipePart : std::uint8_t {
  norm,
  attention_in,
  rotary,
  head_exchange,
  activation,
  expert_rows,
  expert_weights,
  expert_blocks,
  residual,
  loss,
  optimizer
};
inline constexpr std::size_t kRecipeParts = 11;
std::string_view name_of(RecipePart part);
/// One sentence.
std::string_view meaning_of(RecipePart part);
/// The names that lines of the part may use, what each means.
struct SizeName {
  std::string_view name, meaning;
};
const std::vector<SizeName>& sizes_of(RecipePart part);

/// A value for every name of a part.
class RecipeSizes {
 public:
  explicit RecipeSizes(RecipePart part) : part_(part) {}  // all 0
  void set(std::string_view name, double value);
  RecipeSizes(RecipePart part, std::initializer_list<std::pair<std::string_view, double>> values);
  RecipePart part() const { return part_; }
  double operator[](std::size_t size) const { return values_[size]; }

 private:
  RecipePart part_;
  std::array<double, 16> values_{};
};

/// A sum of products of a number and sizes.
struct SizeSum {
  struct Term {
    double factor = 1;
    std::vector<std::uint8_t> sizes;
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms;
  double at(const RecipeSizes& sizes) const;
  bool operator==(const SizeSum&) const = default;
};

/// On what a line hangs: a size that is, or is not, 0.
struct LineCondition {
  std::uint8_t size = 0;
  bool wanted = true;
  bool operator==(const LineCondition&) const = default;
};

/// A tensor: of so many elements, so many bytes each.
struct KeptLine {
  std::string name;
  SizeSum elements, bytes_each;
  std::vector<LineCondition> conditions;
  bool holds(const RecipeSizes& sizes) const;
  bool operator==(const KeptLine&) const = default;
};

/// A kernel, or a collective over the part's group, which moves such a tensor.
struct Line : KeptLine {
  std::variant<Streaming, CollectiveOp> runs;
  SizeSum times;  // kernels that it stands for; nothing: one
  double launches(const RecipeSizes& sizes) const;
  bool operator==(const Line&) const = default;
};

struct Recipe {
  RecipePart part{};
  std::string variant, source;
  std::vector<Line> forward, backward;
  std::vector<KeptLine> keeps;                 // from the forward to the backward pass
  std::vector<KeptLine> works;                 // alive beside that while its backward pass works
  std::vector<KeptLine> gaps;                  // what lies free between its tensors then, and fits none of them
  std::shared_ptr<const Recipe> outside = {};  // of what lies outside of compiled blocks; null: the same
  bool operator==(const Recipe&) const = default;
};

/// Whether a line of it hangs on this size.
bool reads(const Recipe& recipe, std::string_view size);
/// Elements that the collectives of a forward pass move.
double exchanged_elements(const Recipe& recipe, const RecipeSizes& sizes);

/// The variants of all parts.
class RecipeBook {
 public:
  /// `document`: a file of calibration/recipes. Throws sim::UserError: unknown parts, kernels and sizes (the nearest is
  /// named), lines that cannot be read, a part that is given twice.
  void add(const sim::Settings& document);
  /// The variant that a framework's key names; a mapping is a variant of its own. Throws sim::UserError.
  std::shared_ptr<const Recipe> read(RecipePart part, const sim::Settings& reference) const;
  /// The one of frameworks that say nothing; null where the book lacks the part.
  std::shared_ptr<const Recipe> usual(RecipePart part) const;
  const std::vector<std::shared_ptr<const Recipe>>& variants(RecipePart part) const;

 private:
  struct Part {
    std::vector<std::shared_ptr<const Recipe>> variants;
    std::string usual;
  };
  std::array<Part, kRecipeParts> parts_;
};

/// The recipe of every part that a framework follows. Copies share them; none: nothing runs.
class Recipes {
 public:
  const Recipe& of(RecipePart part) const;
  void set(std::shared_ptr<const Recipe> recipe);
  friend bool operator==(const Recipes& a, const Recipes& b);

 private:
  using Parts = std::array<std::shared_ptr<const Recipe>, kRecipeParts>;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace orrery::calibration
