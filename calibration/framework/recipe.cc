// Reads recipes and evaluates their lines. See recipe.h.
#include "calibration/framework/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "sim/error.h"

namespace orrery::calibration {

namespace {

using sim::Settings;

struct PartRow {
  std::string_view name, meaning;
  std::vector<SizeName> sizes;
};

/// What no kernel moves: a product beyond this is a misprint, and more than a simulation could hold.
constexpr double kMostTimes = 1e6;
constexpr std::size_t kMostFactors = 3;

constexpr SizeName kElement{"e", "bytes of an activation's element"};

const std::array<PartRow, kRecipeParts>& part_rows() {
  static const std::array<PartRow, kRecipeParts> all{{
      {"norm",
       "Layer norms and RMS norms.",
       {{"x", "elements of what it reads on the rank"},
        kElement,
        {"cast", "bytes that a kernel writes more where it casts for the product behind it"},
        {"residual", "its input goes on beside it, so that two gradients meet there"},
        {"added", "gradients that meet there beside its own"},
        {"rms", "it is an RMS norm"}}},
      {"attention-in",
       "Copies of queries, keys, values and the output around attention's kernels, and of their gradients.",
       {{"q", "elements of the queries, and of the output"},
        {"qkv", "elements of queries, keys and values"},
        kElement,
        {"fused", "attention is one kernel"}}},
      {"rotary",
       "Rotary embedding of queries and keys.",
       {{"q", "elements of the queries"},
        {"kv", "elements of the keys"},
        kElement,
        {"factor", "queries and keys are scaled beside their rotation"},
        {"packed",
         "documents that a sequence is packed with, where they are rotated one by one, each a run of the lines; else "
         "0"}}},
      {"head-exchange",
       "What puts packed documents in order around each exchange of positions for heads among context ranks.",
       {{"documents", "that a sequence is packed with, more than one"},
        {"ranks", "of the context group"},
        {"gathered",
         "the exchange gathers positions, and what it brings is put in order behind it; else ahead of it"}}},
      {"activation",
       "What MLPs and experts apply inside, their product with a gate and the bias ahead of it.",
       {{"ffn", "elements of what the activation makes"},
        {"gates", "tensors of that size that it reads: 2 with a gate, else 1"},
        kElement,
        {"cast", "bytes that a kernel writes more where it casts for the product behind it"},
        {"made", "bytes that the backward kernel writes more where it makes the activation again"},
        {"gated", "the activation multiplies a gate"},
        {"squared", "it is a squared ReLU"},
        {"bias", "linear layers have biases"},
        {"bias_in_gemm", "products add them"}}},
      {"expert-rows",
       "What rows of tokens go through on their way to experts and back, beside being picked and sorted.",
       {{"x", "elements of the rows that the rank sends"}, kElement}},
      {"expert-weights",
       "What it takes beside an expert's activation that tokens have weights for it.",
       {{"ffn", "elements of what the activation makes"},
        {"gates", "tensors of that size that it reads: 2 with a gate, else 1"},
        kElement}},
      {"expert-blocks",
       "What puts rows of every expert into whole blocks of scales ahead of its products, and back behind them.",
       {{"x", "elements of the rows that come to the rank's experts"}, kElement}},
      {"residual",
       "Bias, dropout and the addition of the residual behind attention and MLP.",
       {{"x", "elements of the residual stream on the rank"},
        kElement,
        {"mask", "bytes of a dropout mask's element; 0: no dropout"},
        {"bias", "linear layers have biases"},
        {"bias_in_gemm", "products add them"}}},
      {"loss",
       "The cross entropy of the logits.",
       {{"logits", "elements of the logits on the rank"},
        {"tokens", "tokens of the micro-batch"},
        kElement,
        {"group", "a tensor group shares the vocabulary out"},
        {"shards", "and no rank has gathered it whole"}}},
      {"optimizer",
       "The optimizer's update.",
       {{"n", "parameters that the rank updates"},
        {"weight", "bytes of the weight that is updated, read and written"},
        {"moment", "bytes of a moment, read and written"},
        {"gradient", "bytes of a gradient"},
        {"copy", "bytes of the copy in 16 bit; 0: none"},
        {"element", "bytes of an activation in 16 bit; 0: training is in fp32"},
        {"narrow", "gradients are narrower than fp32"},
        {"fp16", "training is in fp16"},
        {"adam", "the optimizer is Adam"},
        {"lamb", "it is LAMB"},
        {"moments", "it is one of the two"},
        {"sgd", "it is SGD"},
        {"momentum", "with momentum"},
        {"adagrad", "it is Adagrad"}}},
  }};
  return all;
}

std::vector<std::string> size_names(RecipePart part) {
  std::vector<std::string> names;
  for (const SizeName& size : sizes_of(part)) names.emplace_back(size.name);
  return names;
}

/// What a word that nobody knows is answered with.
[[noreturn]] void refuse_word(const Settings& at, std::string_view word, std::string_view noun,
                              const std::vector<std::string>& known) {
  const std::string nearest = sim::nearest_word(std::string(word), known);
  if (!nearest.empty()) at.fail(fmt::format("got {} \"{}\"; did you mean \"{}\"?", noun, word, nearest));
  at.fail(fmt::format("got {} \"{}\", expected one of {}", noun, word, fmt::join(known, ", ")));
}

/// The text of one line, word by word.
class LineReader {
 public:
  LineReader(RecipePart part, const Settings& text) : part_(part), at_(text) {
    if (!text.is_scalar()) text.expected("a line, as in \"copy q+kv 2e\"");
    const std::string_view line = text.text();
    for (std::size_t from = 0; (from = line.find_first_not_of(' ', from)) != std::string_view::npos;) {
      const std::size_t end = std::min(line.find(' ', from), line.size());
      if (words_.empty()) words_.reserve(kWords);
      words_.push_back(line.substr(from, end - from));
      from = end;
    }
  }

  std::variant<Streaming, CollectiveOp> runs() {
    const std::string_view word = next("a kernel");
    for (std::size_t i = 0; i < kStreamingKernels; ++i) {
      if (word == name_of(static_cast<Streaming>(i))) return static_cast<Streaming>(i);
    }
    for (const CollectiveOp op : kExchanges) {
      if (word == name_of(op)) return op;
    }
    std::vector<std::string> known;
    for (std::size_t i = 0; i < kStreamingKernels; ++i) known.emplace_back(name_of(static_cast<Streaming>(i)));
    for (const CollectiveOp op : kExchanges) known.emplace_back(name_of(op));
    refuse_word(at_, word, "kernel", known);
  }

  /// Terms joined by +, each a number and sizes joined by * or by nothing behind the number: 3e+2gates*e.
  SizeSum sum(const char* of) {
    const std::string_view word = next(of);
    SizeSum sum;
    sum.terms.reserve(1 + static_cast<std::size_t>(std::count(word.begin(), word.end(), '+')));
    std::string_view rest = word;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('+'), rest.size());
      sum.terms.push_back(term(rest.substr(0, end)));
      if (end + 1 == rest.size()) wrong(word);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return sum;
  }

  /// The sum behind this word, if the line goes on with it; else nothing.
  SizeSum behind(std::string_view word) {
    if (place_ == words_.size() || words_[place_] != word) return {};
    ++place_;
    return sum("a number");
  }

  /// "if gated and not squared", to the end of the line.
  std::vector<LineCondition> conditions() {
    std::vector<LineCondition> out;
    while (place_ < words_.size()) {
      const char* joint = out.empty() ? "if" : "and";
      if (words_[place_] != joint) at_.fail(fmt::format("got \"{}\", expected \"{}\"", words_[place_], joint));
      ++place_;
      std::string_view word = next("a size");
      const bool wanted = word != "not";
      if (!wanted) word = next("a size");
      out.push_back({size(word), wanted});
    }
    return out;
  }

 private:
  std::string_view next(const char* what) {
    if (place_ == words_.size()) at_.expected(fmt::format("{} more at its end, as in \"copy q+kv 2e\"", what));
    return words_[place_++];
  }

  [[noreturn]] void wrong(std::string_view term) const {
    at_.fail(fmt::format("got \"{}\", expected a sum of products, as in 3e+2gates*e", term));
  }

  SizeSum::Term term(std::string_view text) const {
    SizeSum::Term out;
    const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    if (digits > 0) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + digits, out.factor);
      if (error != std::errc{} || end != text.data() + digits) wrong(text);
      if (out.factor > kMostTimes)
        at_.fail(fmt::format("got \"{}\", expected at most {:g} times a size", text, kMostTimes));
    }
    std::string_view rest = text.substr(digits);
    if (digits > 0 && rest.starts_with('*')) rest.remove_prefix(1);
    if (digits == 0 && rest.empty()) wrong(text);
    if (digits == text.size()) return out;
    for (bool more = true; more;) {
      const std::size_t end = std::min(rest.find('*'), rest.size());
      more = end < rest.size();
      if (out.sizes.size() == kMostFactors)
        at_.fail(fmt::format("got \"{}\", expected a product of at most {} sizes", text, kMostFactors));
      out.sizes.push_back(size(rest.substr(0, end)));
      rest.remove_prefix(more ? end + 1 : end);
    }
    return out;
  }

  std::uint8_t size(std::string_view name) const {
    const std::vector<SizeName>& known = sizes_of(part_);
    const auto at = std::find_if(known.begin(), known.end(), [&](const SizeName& size) { return size.name == name; });
    if (at == known.end()) refuse_word(at_, name, fmt::format("size of {}", name_of(part_)), size_names(part_));
    return static_cast<std::uint8_t>(at - known.begin());
  }

  static constexpr std::array kExchanges{CollectiveOp::all_reduce, CollectiveOp::all_gather,
                                         CollectiveOp::reduce_scatter};

  static constexpr std::size_t kWords = 8;  // of most lines

  RecipePart part_;
  const Settings& at_;
  std::vector<std::string_view> words_;
  std::size_t place_ = 0;
};

/// The one member of an item of a list of lines.
const std::pair<std::string, Settings>& named_line(const Settings& item) {
  if (!item.is_mapping() || item.members().size() != 1) item.expected("a name and its line, as in `rotate: copy q 2e`");
  return item.members().front();
}

void read_tensor(LineReader& reader, const std::string& name, KeptLine& line) {
  line.name = name;
  line.elements = reader.sum("its elements");
  line.bytes_each = reader.sum("the bytes of each");
}

const std::vector<Settings>& line_items(const Settings& recipe, std::string_view key) {
  static const std::vector<Settings> none;
  const Settings* list = recipe.find(key);
  if (list == nullptr) return none;
  if (!list->is_sequence()) list->expected("a list of lines");
  return list->items();
}

std::vector<Line> read_lines(RecipePart part, const Settings& recipe, std::string_view key) {
  std::vector<Line> lines;
  for (const Settings& item : line_items(recipe, key)) {
    const auto& [name, text] = named_line(item);
    LineReader reader(part, text);
    Line& line = lines.emplace_back();
    line.runs = reader.runs();
    read_tensor(reader, name, line);
    line.times = reader.behind("times");
    line.conditions = reader.conditions();
  }
  return lines;
}

std::vector<KeptLine> read_tensors(RecipePart part, const Settings& recipe, std::string_view key) {
  std::vector<KeptLine> lines;
  for (const Settings& item : line_items(recipe, key)) {
    const auto& [name, text] = named_line(item);
    LineReader reader(part, text);
    read_tensor(reader, name, lines.emplace_back());
    lines.back().conditions = reader.conditions();
  }
  return lines;
}

Recipe read_variant(RecipePart part, std::string variant, const Settings& document) {
  if (!document.is_mapping()) document.expected("a recipe: a mapping of source, forward, backward and keeps");
  static const std::vector<std::string>& known = *new std::vector<std::string>{
      "source", "like", "over_group", "if_packed", "outside", "forward", "backward", "keeps", "works", "gaps"};
  document.refuse_unknown(known);
  Recipe recipe;
  recipe.part = part;
  recipe.variant = std::move(variant);
  recipe.source = document.at("source").text();
  recipe.forward = read_lines(part, document, "forward");
  recipe.backward = read_lines(part, document, "backward");
  recipe.keeps = read_tensors(part, document, "keeps");
  recipe.works = read_tensors(part, document, "works");
  recipe.gaps = read_tensors(part, document, "gaps");
  return recipe;
}

/// What a variant leaves out it has of another, which is written out.
void take_over(const Settings& document, const Recipe& other, Recipe& recipe) {
  const auto given = [&](const char* key) { return document.find(key) != nullptr; };
  if (!given("forward")) recipe.forward = other.forward;
  if (!given("backward")) recipe.backward = other.backward;
  if (!given("keeps")) recipe.keeps = other.keeps;
  if (!given("works")) recipe.works = other.works;
  if (!given("gaps")) recipe.gaps = other.gaps;
  recipe.outside = other.outside;
}

/// Where a size is not 0 another variant's kernels take the place of a recipe's own.
struct Elsewhere {
  std::string_view key, size, unknown;
};
constexpr std::array<Elsewhere, 2> kElsewhere{
    {{"over_group", "group", "which no group shares out"}, {"if_packed", "packed", "which documents do not change"}}};

void put_elsewhere(const Elsewhere& where, const Settings& reference, const Recipe& other, Recipe& recipe) {
  const std::vector<SizeName>& known = sizes_of(recipe.part);
  const auto at =
      std::find_if(known.begin(), known.end(), [&](const SizeName& size) { return size.name == where.size; });
  if (at == known.end()) reference.fail(fmt::format("got {}, {}", name_of(recipe.part), where.unknown));
  const auto size = static_cast<std::uint8_t>(at - known.begin());
  for (auto lines : {&Recipe::forward, &Recipe::backward}) {
    for (Line& own : recipe.*lines) own.conditions.push_back({size, false});
    for (Line line : other.*lines) {
      line.conditions.push_back({size, true});
      (recipe.*lines).push_back(std::move(line));
    }
  }
}

RecipePart part_named(const Settings& name) {
  for (std::size_t part = 0; name.is_scalar() && part < kRecipeParts; ++part) {
    if (part_rows()[part].name == name.text()) return static_cast<RecipePart>(part);
  }
  std::vector<std::string> known;
  for (const PartRow& row : part_rows()) known.emplace_back(row.name);
  const std::string part = name.as_choice(known);
  return static_cast<RecipePart>(std::find(known.begin(), known.end(), part) - known.begin());
}

std::size_t place_of(RecipePart part) { return static_cast<std::size_t>(part); }

}  // namespace

std::string_view name_of(RecipePart part) { return part_rows()[place_of(part)].name; }
std::string_view meaning_of(RecipePart part) { return part_rows()[place_of(part)].meaning; }
const std::vector<SizeName>& sizes_of(RecipePart part) { return part_rows()[place_of(part)].sizes; }

RecipeSizes::RecipeSizes(RecipePart part, std::initializer_list<std::pair<std::string_view, double>> values)
    : part_(part) {
  SIM_CHECK(values.size() == sizes_of(part).size(), "{} has {} sizes, not {}", name_of(part), sizes_of(part).size(),
            values.size());
  for (const auto& [name, value] : values) set(name, value);
}

void RecipeSizes::set(std::string_view name, double value) {
  const std::vector<SizeName>& names = sizes_of(part_);
  const auto at = std::find_if(names.begin(), names.end(), [&](const SizeName& size) { return size.name == name; });
  SIM_CHECK(at != names.end(), "{} has no size {}", name_of(part_), name);
  values_[static_cast<std::size_t>(at - names.begin())] = value;
}

double SizeSum::at(const RecipeSizes& sizes) const {
  double sum = 0;
  for (const Term& term : terms) {
    double product = term.factor;
    for (const std::uint8_t size : term.sizes) product *= sizes[size];
    sum += product;
  }
  return sum;
}

bool KeptLine::holds(const RecipeSizes& sizes) const {
  return std::all_of(conditions.begin(), conditions.end(),
                     [&](const LineCondition& one) { return (sizes[one.size] != 0) == one.wanted; });
}

double Line::launches(const RecipeSizes& sizes) const {
  return times.terms.empty() ? 1 : std::max(1.0, std::round(times.at(sizes)));
}

bool reads(const Recipe& recipe, std::string_view size) {
  const std::vector<SizeName>& names = sizes_of(recipe.part);
  const auto at = std::find_if(names.begin(), names.end(), [&](const SizeName& one) { return one.name == size; });
  SIM_CHECK(at != names.end(), "{} has no size {}", name_of(recipe.part), size);
  const auto place = static_cast<std::uint8_t>(at - names.begin());
  const auto in_sum = [&](const SizeSum& sum) {
    return std::any_of(sum.terms.begin(), sum.terms.end(), [&](const SizeSum::Term& term) {
      return std::find(term.sizes.begin(), term.sizes.end(), place) != term.sizes.end();
    });
  };
  for (const auto* lines : {&recipe.forward, &recipe.backward}) {
    for (const Line& line : *lines) {
      const bool asks = std::any_of(line.conditions.begin(), line.conditions.end(),
                                    [&](const LineCondition& one) { return one.size == place; });
      if (asks || in_sum(line.elements) || in_sum(line.bytes_each) || in_sum(line.times)) return true;
    }
  }
  return false;
}

double exchanged_elements(const Recipe& recipe, const RecipeSizes& sizes) {
  double elements = 0;
  for (const Line& line : recipe.forward) {
    if (std::holds_alternative<CollectiveOp>(line.runs) && line.holds(sizes)) elements += line.elements.at(sizes);
  }
  return elements;
}

void RecipeBook::add(const Settings& document) {
  document.refuse_unknown({"part", "read_by", "usual", "variants"});
  const RecipePart part = part_named(document.at("part"));
  Part& here = parts_[place_of(part)];
  if (!here.variants.empty()) document.at("part").fail(fmt::format("got {} twice, expected once", name_of(part)));
  const Settings& variants = document.at("variants");
  if (!variants.is_mapping() || variants.members().empty()) variants.expected("names of variants and their recipes");
  std::vector<Recipe> recipes;
  std::vector<std::string> names;
  for (const auto& [name, variant] : variants.members()) {
    Recipe recipe = read_variant(part, name, variant);
    // Of those ahead of it, so that no two can name each other.
    const auto ahead = [&](const Settings& other) -> const Recipe& {
      const std::string of = other.as_choice(names);
      return recipes[static_cast<std::size_t>(std::find(names.begin(), names.end(), of) - names.begin())];
    };
    if (const Settings* other = variant.find("like")) take_over(variant, ahead(*other), recipe);
    for (const Elsewhere& where : kElsewhere) {
      if (const Settings* over = variant.find(where.key)) put_elsewhere(where, *over, ahead(*over), recipe);
    }
    recipes.push_back(std::move(recipe));
    names.push_back(name);
  }
  here.usual = document.at("usual").as_choice(names);
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    if (const Settings* other = variants.members()[i].second.find("outside")) {
      const auto at = std::find(names.begin(), names.end(), other->as_choice(names)) - names.begin();
      recipes[i].outside = std::make_shared<const Recipe>(recipes[static_cast<std::size_t>(at)]);
    }
  }
  for (Recipe& recipe : recipes) here.variants.push_back(std::make_shared<const Recipe>(std::move(recipe)));
}

std::shared_ptr<const Recipe> RecipeBook::read(RecipePart part, const Settings& reference) const {
  if (reference.is_mapping()) {
    Recipe recipe = read_variant(part, "its own", reference);
    const auto shipped = [&](const Settings& other) {
      if (!other.is_scalar()) other.expected("the name of a variant");
      return read(part, other);
    };
    if (const Settings* other = reference.find("like")) take_over(reference, *shipped(*other), recipe);
    for (const Elsewhere& where : kElsewhere) {
      if (const Settings* over = reference.find(where.key)) put_elsewhere(where, *over, *shipped(*over), recipe);
    }
    return std::make_shared<const Recipe>(std::move(recipe));
  }
  std::vector<std::string> names;
  for (const auto& one : variants(part)) names.push_back(one->variant);
  const std::string name = reference.as_choice(names);
  return variants(part)[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
}

std::shared_ptr<const Recipe> RecipeBook::usual(RecipePart part) const {
  for (const auto& one : variants(part)) {
    if (one->variant == parts_[place_of(part)].usual) return one;
  }
  return nullptr;
}

const std::vector<std::shared_ptr<const Recipe>>& RecipeBook::variants(RecipePart part) const {
  return parts_[place_of(part)].variants;
}

const Recipe& Recipes::of(RecipePart part) const {
  static const Recipe nothing;
  return parts_ && (*parts_)[place_of(part)] ? *(*parts_)[place_of(part)] : nothing;
}

void Recipes::set(std::shared_ptr<const Recipe> recipe) {
  Parts parts = parts_ ? *parts_ : Parts{};
  parts[place_of(recipe->part)] = std::move(recipe);
  parts_ = std::make_shared<const Parts>(std::move(parts));
}

bool operator==(const Recipes& a, const Recipes& b) {
  if (a.parts_ == b.parts_) return true;
  for (std::size_t i = 0; i < kRecipeParts; ++i) {
    const auto part = static_cast<RecipePart>(i);
    if (&a.of(part) != &b.of(part) && a.of(part) != b.of(part)) return false;
  }
  return true;
}

}  // namespace orrery::calibration
