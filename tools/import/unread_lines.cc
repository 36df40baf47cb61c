// Remarks on lines that are not read. See unread_lines.h.
#include "tools/import/unread_lines.h"

#include <fmt/format.h>

#include <cctype>

namespace orrery::tools {

namespace {

constexpr std::size_t kQuotedLines = 8;    // lines whose text is said
constexpr std::size_t kLongestQuote = 60;  // characters of it
constexpr std::size_t kMostUnreadRanges = 100;

/// What of a line can stand in a comment.
std::string plain(const std::string& line) {
  std::string out;
  for (const char c : line.substr(0, kLongestQuote)) {
    const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out += blank ? ' ' : std::isprint(static_cast<unsigned char>(c)) != 0 ? c : '?';
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out + (line.size() > kLongestQuote ? "..." : "");
}

}  // namespace

std::string UnreadLines::remark() const {
  std::vector<std::string> said;
  std::size_t i = 0;
  for (; i < lines_.size() && i < kQuotedLines; ++i)
    said.push_back(fmt::format("line {} \"{}\"", lines_[i].first, plain(lines_[i].second)));
  while (i < lines_.size() && said.size() < kMostUnreadRanges) {
    const std::size_t begin = i++;
    while (i < lines_.size() && lines_[i].first == lines_[i - 1].first + 1) ++i;
    const std::int64_t from = lines_[begin].first, to = lines_[i - 1].first;
    said.push_back(from == to ? fmt::format("line {}", from) : fmt::format("lines {} to {}", from, to));
  }
  if (i < lines_.size()) said.push_back(fmt::format("{} more up to line {}", lines_.size() - i, lines_.back().first));
  return fmt::format("not read: {}", fmt::join(said, ", "));
}

}  // namespace orrery::tools
