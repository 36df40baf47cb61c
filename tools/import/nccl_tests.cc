// A row is: size, count, type, the reduction and the root where the collective has them, then time (us), algbw and
// busbw (GB/s) and the count of wrong values, out of place and once more in place. Versions differ in which of
// reduction, root and wrong values they print; times follow the last word that is no number. Left out: the spread over
// repetitions, which is not printed.
#include "tools/import/nccl_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>

#include "sim/error.h"

namespace orrery::tools {

using sim::Place;
using sim::UserError;

namespace {

constexpr std::size_t kMostRows = 10'000;
constexpr std::size_t kLongestTestsLine = 4096;

/// What launchers put before a line: "0: " (srun --label), "[1,0]<stdout>: " and "Thu Jul 18 15:00:00 2024<stdout>:"
/// (mpirun --tag-output, --timestamp-output), "host: " (pdsh, kubectl).
std::string without_label(std::string line) {
  if (const std::size_t mark = line.find("<stdout>:"); mark != std::string::npos) line.erase(0, mark + 9);
  for (;;) {
    const std::size_t begin = line.find_first_not_of(" \t"), colon = line.find(": ");
    if (begin == std::string::npos || colon == std::string::npos || line[begin] == '#') return line;
    const std::string label = line.substr(begin, colon - begin);
    const bool one_word = !label.empty() && label.find_first_of(" \t#") == std::string::npos;
    if (!one_word) return line;
    line.erase(0, colon + 2);
  }
}

std::vector<std::string> split_words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool is_count(const std::string& word) {
  return !word.empty() && word.size() < 19 && word.find_first_not_of("0123456789") == std::string::npos;
}

bool is_decimal(const std::string& word) {
  return !word.empty() && word.find_first_not_of("+-.0123456789eE") == std::string::npos;
}

/// "all_reduce" of "./build/all_reduce_perf"; the exchange's program is called alltoall_perf, that of sends
/// sendrecv_perf.
std::string operation_of(const std::string& program) {
  std::string name = program.substr(program.find_last_of('/') + 1);
  name.resize(std::min(name.find("_perf"), name.size()));
  if (name == "alltoall") return "all_to_all";
  return name == "sendrecv" ? "send_receive" : name;
}

/// Algorithm bandwidths are printed with two decimals or in four digits.
bool agrees(double bytes, double us, double gbs) {
  return us > 0 && std::abs(bytes / us * 1e-3 - gbs) <= 0.006 + 0.01 * gbs;
}

/// A count, or one as spreadsheets and reports shorten it: 2.68e+8.
bool is_size(const std::string& word) {
  const bool shortened =
      is_decimal(word) && word.find_first_of("eE") != std::string::npos && std::isdigit(word[0]) != 0;
  return is_count(word) || shortened;
}

/// A row's words begin with size, count and a type.
bool is_tests_row(const std::vector<std::string>& words) {
  return words.size() > 3 && is_size(words[0]) && is_size(words[1]) && !is_decimal(words[2]);
}

/// Of a row that was cut to one group of times, with the root or without: where the time stands that its bandwidth
/// goes with.
std::optional<double> time_alone(const std::vector<std::string>& words, std::size_t first) {
  const double bytes = std::strtod(words[0].c_str(), nullptr);
  for (std::size_t at = first; at < first + 2 && at + 2 < words.size(); ++at) {
    const double us = std::strtod(words[at].c_str(), nullptr), gbs = std::strtod(words[at + 1].c_str(), nullptr);
    if (agrees(bytes, us, gbs)) return us;
  }
  return std::nullopt;
}

NcclTestsRow tests_row(const std::vector<std::string>& words, const Place& place) {
  std::size_t first = 3;
  for (std::size_t i = 3; i < words.size(); ++i) {
    if (!is_decimal(words[i]) && words[i] != "N/A") first = i + 1;
  }
  // Behind the words: root, or not; three columns, with wrong values or not; all but the root twice.
  const std::size_t left = words.size() - std::min(first, words.size());
  if (left >= 3 && left <= 5) {
    if (const std::optional<double> us = time_alone(words, first))
      return {std::strtod(words[0].c_str(), nullptr), *us * 1e-6};
  }
  if (left == 9 || left == 7) ++first;
  if (left < 6 || left > 9) {
    throw UserError(place, "time",
                    fmt::format("got {} columns of times, expected time, algbw, busbw and #wrong, twice", left));
  }
  const double bytes = std::strtod(words[0].c_str(), nullptr);
  const std::size_t half = left >= 8 ? 4 : 3;
  for (const std::size_t at : {first, first + half}) {
    if (words[at] == "N/A") continue;
    const double us = std::strtod(words[at].c_str(), nullptr), gbs = std::strtod(words[at + 1].c_str(), nullptr);
    if (!agrees(bytes, us, gbs)) {
      throw UserError(place, "algbw",
                      fmt::format("got {} GB/s for {} bytes in {} us, expected bytes over time", words[at + 1],
                                  words[0], words[at]));
    }
    return {bytes, us * 1e-6};
  }
  throw UserError(place, "time", "got no time, expected one out of place or in place");
}

}  // namespace

NcclTests read_nccl_tests(const std::string& text, const std::string& file) {
  NcclTests out;
  std::istringstream lines(text);
  int at = 0;
  std::set<std::string> ranks;
  for (std::string line; std::getline(lines, line);) {
    const Place place{file, ++at, 1};
    if (line.size() > kLongestTestsLine) continue;  // no line of these programs
    line = without_label(std::move(line));
    const std::vector<std::string> words = split_words(line);
    if (const std::size_t begin = line.find("Collective test starting: "); begin != std::string::npos) {
      if (!out.rows.empty())
        throw UserError(place, "", "begins another collective, expected the output of one program; cut it in two");
      if (!words.empty()) out.operation = operation_of(words.back());
    }
    const auto rank = std::find(words.begin(), words.end(), "Rank");
    if (words.size() > 4 && words[0] == "#" && rank == words.begin() + 1 && is_count(words[2])) ranks.insert(words[2]);
    if (!is_tests_row(words)) continue;
    out.rows.push_back(tests_row(words, place));
    if (out.rows.size() > kMostRows) throw UserError(place, "", fmt::format("is row {}, expected fewer", kMostRows));
  }
  out.gpus = static_cast<std::int64_t>(ranks.size());
  std::erase_if(out.rows, [](const NcclTestsRow& row) { return row.bytes < 1; });  // of no bytes at all
  if (out.rows.empty())
    throw UserError({file, 1, 1}, "size", "holds no row, expected the output of a program of nccl-tests or rccl-tests");
  return out;
}

}  // namespace orrery::tools
