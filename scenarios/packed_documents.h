// What ships, parsed when the program was built (tools/package/pack_documents.cc) and held in the program. A file is
// read all the same: where its text is one that was packed, to the last byte, its packed form stands for it, and where
// somebody has changed it, it is parsed as any other. So a file says what it says, wherever it lies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::scenarios {

struct PackedFile {
  std::string_view checked_as;  // what a document is known to be right as; empty: nothing
  std::string_view bytes;       // of a document (sim/packed_settings.h), or of a table (sim/packed_table.h)
};

/// The packed form of a file's text; nothing where it is not among them, as in a program that holds none.
std::optional<PackedFile> packed_file(std::string_view text);

/// Writes the program's archive: texts beside their packed forms, which packed_file() then finds.
class PackedArchive {
 public:
  void add(std::string_view text, const PackedFile& file);
  std::string bytes() const;

 private:
  struct Entry {
    std::uint64_t sum = 0, size = 0;  // of the text
    std::string checked_as, bytes;
  };
  std::vector<Entry> entries_;
};

/// As packed_file(), in an archive.
std::optional<PackedFile> packed_in(std::string_view archive, std::string_view text);

}  // namespace orrery::scenarios
