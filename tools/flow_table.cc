// Reading tables of flows and sharing their links; see flow_table.h.
#include "tools/flow_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "sim/error.h"
#include "sim/fluid.h"

namespace orrery::tools {

namespace {

using sim::UserError;

constexpr double kMostBytes = 1e18;
constexpr double kLongest = 9e5;  // seconds; the engine's clock ends after 1e6

constexpr std::size_t kWord = sizeof(std::uint64_t);

std::uint64_t word_at(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, kWord);
  return word;
}

/// Names, numbered from 0 in the order in which they come, in one flat table (open addressing, linear probing): half of
/// the time that reading a large table takes is looking names up.
class NumberedNames {
 public:
  /// The number of `name`, and whether it is new.
  std::pair<std::uint32_t, bool> insert(std::string_view name) {
    if (2 * names_.size() >= slots_.size()) grow();
    const std::uint32_t hash = hash_of(name);
    std::size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].number != kUnused; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].hash == hash && names_[slots_[at].number] == name) return {slots_[at].number, false};
    }
    const auto number = static_cast<std::uint32_t>(names_.size());
    slots_[at] = {hash, number};
    names_.push_back(name);
    return {number, true};
  }

 private:
  static constexpr std::uint32_t kUnused = 0xffffffff;

  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t number = kUnused;
  };

  /// Both halves of a product, folded (Wang Yi, wyhash, 2019).
  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  /// Words of eight bytes, the last of which may overlap the one before.
  static std::uint32_t hash_of(std::string_view name) {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
    std::uint64_t hash = name.size();
    if (name.size() < kWord) {
      std::uint64_t word = 0;
      for (const char c : name) word = word << 8 | static_cast<unsigned char>(c);
      hash = fold(hash ^ word ^ kOdd, kOdd);
    } else {
      const char* at = name.data();
      const char* const last = at + name.size() - kWord;
      for (; at < last; at += kWord) hash = fold(hash ^ word_at(at), kOdd);
      hash = fold(hash ^ word_at(last), kOdd);
    }
    return static_cast<std::uint32_t>(hash ^ hash >> 32);
  }

  void grow() {
    constexpr std::size_t kLeast = 4096;
    const std::vector<Slot> before = std::move(slots_);
    slots_.assign(std::max(kLeast, 4 * before.size()), Slot{});
    for (const Slot& slot : before) {
      if (slot.number == kUnused) continue;
      std::size_t at = slot.hash & (slots_.size() - 1);
      while (slots_[at].number != kUnused) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two of them
  std::vector<std::string_view> names_;
};

/// Names that must differ. While each is larger than the one before, as those that are counted are, nothing need be
/// looked up.
class DistinctNames {
 public:
  /// The number of the one that `name` repeats, if it does.
  std::optional<std::uint32_t> add(std::string_view name) {
    if (rising_ && (names_.empty() || before(names_.back(), name))) {
      names_.push_back(name);
      return {};
    }
    if (rising_) {
      rising_ = false;
      for (const std::string_view earlier : names_) known_.insert(earlier);
    }
    const auto [number, fresh] = known_.insert(name);
    if (!fresh) return number;
    names_.push_back(name);
    return {};
  }
  std::vector<std::string_view> take() && { return std::move(names_); }

 private:
  static bool before(std::string_view a, std::string_view b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  }

  bool rising_ = true;
  std::vector<std::string_view> names_;
  NumberedNames known_;  // once they do not rise
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Of blanks alone nothing is left, in the place where they began.
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}

/// Cuts the text up to `separator` (or the end) off `rest`; false when nothing is left.
bool take(std::string_view& rest, char separator, std::string_view& piece) {
  if (rest.data() == nullptr) return false;
  const std::size_t at = rest.find(separator);
  piece = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return true;
}

/// The first blank from `at` on, or `end`. Eight bytes at a time, as far as the text goes: a byte is looked at where it
/// is smaller than '!' (Mycroft's test, 1987), as blanks, tabs and ends of lines are.
const char* end_of_word(const char* at, const char* end, const char* end_of_text) {
  constexpr std::uint64_t kOnes = 0x0101010101010101u, kTops = 0x8080808080808080u;
  while (at < end) {
    if (end_of_text - at >= static_cast<std::ptrdiff_t>(kWord) && std::endian::native == std::endian::little) {
      const std::uint64_t word = word_at(at);
      const std::uint64_t small = (word - kOnes * '!') & ~word & kTops;
      if (small == 0) {
        at += kWord;
        continue;
      }
      at += std::countr_zero(small) / 8;
    }
    if (at >= end) return end;
    if (is_blank(*at)) return at;
    ++at;
  }
  return end;
}

/// Digits, perhaps a point between them: exact where number and power of ten both are (Clinger, How to read floating
/// point numbers accurately, PLDI 1990). Nothing for other numbers.
std::optional<double> short_number(std::string_view text) {
  constexpr std::size_t kMostDigits = 15;
  constexpr std::array<double, kMostDigits + 1> kPowers{1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                        1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  if (text.empty() || text.size() > kMostDigits || text.front() == '.' || text.back() == '.') return {};
  std::uint64_t digits = 0;
  std::size_t point = text.size();  // where it stands
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = static_cast<unsigned>(text[i] - '0');
    if (digit <= 9) {
      digits = 10 * digits + digit;
    } else if (text[i] == '.' && point == text.size()) {
      point = i;
    } else {
      return {};
    }
  }
  const std::size_t decimals = point == text.size() ? 0 : text.size() - point - 1;
  return static_cast<double>(digits) / kPowers[decimals];
}

enum PathColumn : std::size_t { kId, kSource, kDestination, kBytes, kStart, kLinks, kPathColumns };
constexpr std::array<std::string_view, kPathColumns> kNames{"id", "src", "dst", "bytes", "start_s", "links"};

/// Reads the table line by line; every complaint names line and column.
class PathReader {
 public:
  PathReader(const std::string& file, std::string_view text, sim::Bandwidth capacity)
      : file_(file), text_(text), capacity_(capacity) {}

  FlowTable read() {
    std::string_view rest = text_, line;
    if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
    take(rest, '\n', line);
    read_header(line);
    reserve(rest);
    while (take(rest, '\n', line)) {
      ++line_;
      if (!trimmed(line).empty()) read_row(line);
    }
    table_.id = std::move(ids_).take();
    if (table_.id.empty()) throw UserError({file_, line_, 1}, "id", "the table holds no flow");
    return std::move(table_);
  }

 private:
  /// The fields of a line; valid until the next call.
  const std::vector<std::string_view>& split(std::string_view line) {
    fields_.clear();
    line_begin_ = line.data();
    for (std::string_view field; take(line, ',', field);) fields_.push_back(trimmed(field));
    return fields_;
  }

  void read_header(std::string_view line) {
    std::array<bool, kPathColumns> found{};
    const std::vector<std::string_view>& fields = split(line);
    columns_ = fields.size();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      // A name may be followed by a remark: "links(space separated)".
      const std::string_view name = trimmed(fields[i].substr(0, fields[i].find('(')));
      for (std::size_t c = 0; c < kPathColumns; ++c) {
        if (name != kNames[c]) continue;
        if (found[c]) fail(fields[i], kNames[c], "the header names this column twice");
        found[c] = true;
        place_[c] = i;
      }
    }
    for (std::size_t c = 0; c < kPathColumns; ++c) {
      if (found[c]) continue;
      throw UserError({file_, 1, 1}, std::string(kNames[c]),
                      fmt::format("the header lacks this column, expected {}", fmt::join(kNames, ",")));
    }
  }

  /// As many rows as there are when all are as long as the first.
  void reserve(std::string_view rows) {
    constexpr std::size_t kShortest = 12;
    const std::size_t first = std::min(rows.find('\n'), rows.size()) + 1;
    const std::size_t count = rows.size() / std::max(kShortest, first) + 1;
    const std::string_view row = rows.substr(0, first);
    const auto links = static_cast<std::size_t>(std::count(row.begin(), row.end(), ' ')) + 1;
    lines_.reserve(count);
    table_.bytes.reserve(count);
    table_.start_s.reserve(count);
    table_.network.route_begin.reserve(count + 1);
    table_.network.route_latency.reserve(count);
    table_.network.route_links.reserve(count * std::min<std::size_t>(links, 16));
  }

  void read_row(std::string_view line) {
    const std::vector<std::string_view>& fields = split(line);
    if (fields.size() != columns_) {
      const std::size_t first_missing = std::min(fields.size(), columns_);
      std::string_view key = "line";
      for (std::size_t c = 0; c < kPathColumns; ++c) {
        if (place_[c] == first_missing) key = kNames[c];
      }
      fail(fields.back(), key, fmt::format("got {} columns, expected {}", fields.size(), columns_));
    }
    const auto field = [&](PathColumn c) { return fields[place_[c]]; };
    for (const PathColumn c : {kId, kSource, kDestination}) {
      if (field(c).empty()) fail(field(c), kNames[c], "got nothing, expected a name or number");
    }
    const std::string_view id = field(kId);
    if (const auto known = ids_.add(id)) {
      fail(
          id, kNames[kId],
          fmt::format("got '{}', which line {} has too, expected an id of its own for every flow", id, lines_[*known]));
    }
    lines_.push_back(line_);
    table_.bytes.push_back(number(field(kBytes), kBytes, kMostBytes));
    table_.start_s.push_back(number(field(kStart), kStart, kLongest));
    path_.clear();
    const std::string_view names = field(kLinks);
    const char* const end_of_text = text_.data() + text_.size();
    for (const char *at = names.data(), *end = at + names.size(); at != end;) {
      const char* const begin = at;
      at = end_of_word(at, end, end_of_text);
      if (at != begin) path_.push_back({link_of({begin, static_cast<std::size_t>(at - begin)}), 1.0});
      if (at != end) ++at;
    }
    if (path_.empty()) {
      fail(field(kLinks), kNames[kLinks], "got nothing, expected names of links with spaces between them");
    }
    table_.network.add_route(path_, sim::Duration{});
  }

  double number(std::string_view text, PathColumn column, double most) const {
    if (const auto read = short_number(text); read && *read <= most) return *read;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    // The comparison also refuses NaN.
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value <= most)) {
      fail(text, kNames[column], fmt::format("got '{}', expected a number from 0 to {:.0e}", text, most));
    }
    return value;
  }

  sim::LinkId link_of(std::string_view name) {
    const auto [number, fresh] = links_.insert(name);
    if (fresh) {
      table_.crossings.push_back(0);
      table_.network.add_link(capacity_);
    }
    ++table_.crossings[number];
    return sim::LinkId{number};
  }

  [[noreturn]] void fail(std::string_view field, std::string_view key, const std::string& message) const {
    const auto column = field.data() == nullptr ? 1 : static_cast<int>(field.data() - line_begin_) + 1;
    throw UserError({file_, line_, column}, std::string(key), message);
  }

  const std::string file_;
  const std::string_view text_;  // of the whole file, into which the names below point
  const sim::Bandwidth capacity_;
  int line_ = 1;
  const char* line_begin_ = nullptr;
  FlowTable table_;
  std::size_t columns_ = 0;
  std::array<std::size_t, kPathColumns> place_{};
  DistinctNames ids_;
  NumberedNames links_;
  std::vector<int> lines_;  // of the flows
  std::vector<std::string_view> fields_;
  std::vector<sim::WeightedLink> path_;
};

/// What the engine's clock cannot hold is the user's mistake. A flow's rate is at least the capacity over the crossings
/// of its fullest link, and while anything flows one link is full, which bounds every time that the engine predicts.
void check_length(const FlowTable& table, double capacity, const std::string& file) {
  double bytes = 0, largest = 0, last_start = 0;
  for (std::size_t i = 0; i < table.id.size(); ++i) {
    bytes += table.bytes[i];
    largest = std::max(largest, table.bytes[i]);
    last_start = std::max(last_start, table.start_s[i]);
  }
  const double crossings = *std::max_element(table.crossings.begin(), table.crossings.end());
  const double longest = last_start + (bytes + crossings * largest) / capacity;
  if (longest <= kLongest) return;
  throw UserError(fmt::format("{}: at {:.4g} bytes/s these flows may take {:.2g} s, expected at most {:.0e} s", file,
                              capacity, longest, kLongest));
}

}  // namespace

FlowTable read_flow_table(const std::string& file, std::string_view text, sim::Bandwidth capacity) {
  FlowTable table = PathReader(file, text, capacity).read();
  check_length(table, capacity.value(), file);
  return table;
}

SharedFlows share(const FlowTable& table) {
  SharedFlows shared;
  shared.end.resize(table.id.size());
  sim::Fluid fluid(table.network.capacity);
  for (std::uint32_t i = 0; i < table.id.size(); ++i) {
    shared.end[i] = sim::seconds(table.start_s[i]).value();
    if (table.bytes[i] <= 0) continue;
    fluid.begin(i, shared.end[i], table.bytes[i], table.network.links_of(sim::RouteId{i}), 0.0);
  }
  fluid.run([&](std::uint32_t flow, std::int64_t at) { shared.end[flow] = at; });
  shared.solves = fluid.solves();
  return shared;
}

std::string ends_csv(const FlowTable& table, const SharedFlows& shared) {
  constexpr std::int64_t kSecond = 1'000'000'000'000;  // picoseconds; digits, not doubles, so that none is lost
  std::string text = "id,end_s\n";
  const auto append_digits = [&text](std::int64_t number, std::size_t least) {
    std::array<char, 20> digits{};
    std::size_t begin = digits.size();
    for (; number > 0 || digits.size() - begin < least; number /= 10) {
      digits[--begin] = static_cast<char>('0' + number % 10);
    }
    text.append(digits.data() + begin, digits.size() - begin);
  };
  for (std::size_t i = 0; i < table.id.size(); ++i) {
    text.append(table.id[i]);
    text.push_back(',');
    append_digits(shared.end[i] / kSecond, 1);
    text.push_back('.');
    append_digits(shared.end[i] % kSecond, 12);
    text.push_back('\n');
  }
  return text;
}

}  // namespace orrery::tools
