// A file in memory, for readers that take a file's name: written anew for each input without a disk.
#pragma once

#include <string>

namespace orrery::fuzz {

class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  /// Its name after its contents were replaced. Opened anew, it is read from its beginning.
  const std::string& with(const std::string& bytes);
  /// What it holds now.
  std::string contents() const;

 private:
  int descriptor_ = -1;
  std::string name_;
};

/// The one that all targets of a process share.
MemoryFile& memory_file();

}  // namespace orrery::fuzz
