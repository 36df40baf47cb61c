// An archive is its number of files, a row for each in the order of its text's sum, and what rows point to. Texts are
// known by their length and a sum of 64 bits (sim/packing.h).
#include "scenarios/packed_documents.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "sim/error.h"
#include "sim/packing.h"

namespace orrery::scenarios {

namespace {

/// Where what a text is checked as and its packed form lie, from the archive's beginning.
struct Row {
  std::uint64_t sum = 0, size = 0;
  std::uint64_t checked = 0, checked_size = 0, bytes = 0, bytes_size = 0;
};

Row row_at(std::string_view archive, std::size_t index) {
  Row row;
  std::memcpy(&row, archive.data() + sizeof(std::uint64_t) + index * sizeof(Row), sizeof(Row));
  return row;
}

}  // namespace

void PackedArchive::add(std::string_view text, const PackedFile& file) {
  entries_.push_back({sim::sum_of(text), text.size(), std::string(file.checked_as), std::string(file.bytes)});
}

std::string PackedArchive::bytes() const {
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries_) sorted.push_back(&entry);
  const auto text = [](const Entry* entry) { return std::tuple(entry->sum, entry->size); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Entry* a, const Entry* b) { return text(a) < text(b); });
  const std::uint64_t count = sorted.size();
  std::string head(reinterpret_cast<const char*>(&count), sizeof(count)), body;
  const std::size_t begin = sizeof(count) + count * sizeof(Row);
  for (const Entry* entry : sorted) {
    Row row{entry->sum, entry->size};
    row.checked = begin + body.size();
    row.checked_size = entry->checked_as.size();
    body += entry->checked_as;
    body.resize((begin + body.size() + 7) / 8 * 8 - begin, '\0');  // tables hold numbers
    row.bytes = begin + body.size();
    row.bytes_size = entry->bytes.size();
    body += entry->bytes;
    head.append(reinterpret_cast<const char*>(&row), sizeof(row));
  }
  return head + body;
}

std::optional<PackedFile> packed_in(std::string_view archive, std::string_view text) {
  std::uint64_t count = 0;
  SIM_CHECK(archive.size() >= sizeof(count), "an archive of packed documents ends early");
  std::memcpy(&count, archive.data(), sizeof(count));
  SIM_CHECK(count <= archive.size() / sizeof(Row), "an archive of packed documents ends early");
  const std::pair wanted{sim::sum_of(text), std::uint64_t{text.size()}};
  std::size_t from = 0, to = count;
  while (from < to) {
    const std::size_t middle = (from + to) / 2;
    const Row row = row_at(archive, middle);
    std::pair{row.sum, row.size} < wanted ? from = middle + 1 : to = middle;
  }
  if (from == count) return std::nullopt;
  const Row row = row_at(archive, from);
  if (std::pair{row.sum, row.size} != wanted) return std::nullopt;
  return PackedFile{archive.substr(row.checked, row.checked_size), archive.substr(row.bytes, row.bytes_size)};
}

}  // namespace orrery::scenarios
