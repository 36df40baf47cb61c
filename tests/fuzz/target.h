// What is fuzzed: one target for each reader of what a user can hand in. A target takes any bytes and either reads them
// or throws sim::UserError; everything else that comes of it, another exception, a crash, a wait, memory without end or
// a value that no reader may return, is a finding.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::fuzz {

/// A value that no reader may return.
class Finding : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws Finding where `holds` is false.
void expect(bool holds, const std::string& what);

struct Target {
  std::string_view name;
  std::string_view reads;  // for people: what stands in the bytes
  void (*read)(const std::string& bytes);
  /// Valid inputs to begin from, beside those of tests/fuzz/corpus/<name>.
  std::vector<std::string> (*seeds)();
};

// By what is read. Each catalogue stands in the file of that name.
std::vector<Target> document_targets();
std::vector<Target> language_targets();
std::vector<Target> study_targets();
std::vector<Target> table_targets();
std::vector<Target> import_targets();
std::vector<Target> trace_targets();

/// All of them, in that order.
const std::vector<Target>& targets();
/// Throws std::invalid_argument naming those that there are.
const Target& target_of(std::string_view name);

/// The target's seeds and the files of tests/fuzz/corpus/<name>, the latter first and in the order of their names.
std::vector<std::string> inputs_of(const Target& target);
/// The text of a shipped document: `folder` below the data directory, `name` with its suffix.
std::string shipped_text(const std::string& folder, const std::string& name);
/// Each section of those files (a key at the margin with what stands below it) on its own, over a document that
/// inherits the file: small inputs are quick ones.
std::vector<std::string> shipped_sections(const std::string& folder, const std::string& suffix);
/// Those of all files below a folder of the data directory that end in `suffix`, in the order of their names; those
/// above 16 KiB are left out, since what is large is slow and says little more.
std::vector<std::string> shipped_texts(const std::string& folder, const std::string& suffix);

}  // namespace orrery::fuzz
