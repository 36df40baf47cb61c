// The samples file of a running calibration: every finished measurement is appended and flushed at once, so that an
// interrupted run loses at most the one that it was in, and a resumed run skips what is there.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "calibration/measure/measurement.h"

namespace orrery::calibration {

class Journal {
 public:
  /// Opens `file`. `identity`: what must be the same for rows to belong together (device, driver, libraries); `notes`:
  /// more comment lines of a new file. With `resume`, an existing file is continued; a last line that was cut off is
  /// dropped. Throws sim::UserError: the file exists and `resume` is not set, is of another identity or format, or
  /// cannot be written.
  Journal(const std::string& file, const std::string& identity, const std::vector<std::string>& notes, bool resume);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  bool has(const Case& what) const { return has(key_of(what)); }
  /// `key`: the first columns of a row (measurement.h).
  bool has(const std::string& key) const { return done_.count(key) == 1; }
  std::size_t rows() const { return done_.size(); }
  /// Throws sim::UserError where the disk is full; what was written before stays whole.
  void append(const Measurement& m) { append(row_of(m)); }
  /// A row without its line break.
  void append(const std::string& row);

 private:
  void write(const std::string& text);
  void read(const std::string& identity);

  std::string file_;
  int descriptor_ = -1;
  std::unordered_set<std::string> done_;
};

}  // namespace orrery::calibration
