// The table that a long study writes while it runs: a row is on disk as soon as its point is finished, so that a kill
// at any byte loses nothing finished. Rows carry the study's fingerprint, so that a study cannot go on in another's
// file.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace orrery::tools {

/// A table of one row per point: its index, `columns`, the fingerprint in a column called `sweep`, and in a last one
/// called `check` a hash of all that stands ahead of it in the row, so that a row that was changed is known.
struct JournalForm {
  std::vector<std::string> columns;  // without index and fingerprint
  std::string fingerprint;
  std::size_t points = 0;  // indices lie below

  std::string header() const;
  std::string row(std::size_t index, const std::vector<std::string>& cells) const;
};

/// Rows by index, as lines without their line break.
using JournalRows = std::map<std::size_t, std::string>;

/// Reads what an earlier run of the study left; a last row that was cut off is left out. Throws sim::UserError for a
/// file that cannot be read or is that of another study, and at a row that was changed or stands there twice.
JournalRows read_journal(const std::string& file, const JournalForm& form);

class Journal {
 public:
  /// Begins `file` anew, or goes on in it where `resumed` names the same file. `rows` are those read from there.
  /// Devices and pipes are written in place. Throws sim::UserError when the file cannot be written.
  Journal(std::string file, const JournalForm& form, const std::string& resumed, const JournalRows& rows);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  /// Writes one row at once. Throws sim::UserError (a full disk); the rows before stay.
  void append(const std::string& row);
  /// Puts the rows in the order of their index: the whole table in one step, or as it was when that fails.
  void finish(const JournalForm& form, const JournalRows& rows);

 private:
  std::string file_;
  bool special_ = false;
  int descriptor_ = -1;
};

}  // namespace orrery::tools
