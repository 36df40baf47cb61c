// What the sources of published tables say beyond the records that quote them: taken where a list of measured records
// is read for comparison or for a fit, and only said where a record is run as a scenario.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/settings.h"

namespace orrery::scenarios {

/// Whether `text` is `pattern`, or begins with what stands before a trailing *.
bool matches(std::string_view text, std::string_view pattern);

/// A key of which the table that a record quotes is known to say something that the record does not.
struct Beyond {
  std::string path;
  std::string was;  // in the record; empty where it leaves the key open
  sim::Settings value;
  std::string source;  // where the table's authors say so
  bool contradicts = false;
  std::string said() const;  // the value in a sentence: "flat", or "exchange flat, replicate_below 8 MB" of a section
};
/// What scenarios/published/sources.yaml knows beyond `record`, by the table that its `source` cites; nothing for a
/// document that cites none of them. Throws UserError for a broken sources.yaml.
std::vector<Beyond> beyond_record(const sim::Settings& record);

/// How the sentence on a corrected key begins.
inline constexpr std::string_view kCorrected = "Corrected: ";

/// `record` with all that its source says beyond it; says which in `notes`, one sentence each.
sim::Settings as_published(const sim::Settings& record, std::vector<std::string>& notes);

/// Another way in which a job may have run, where no record says which it was.
struct OtherWay {
  sim::Settings record;  // as it ran then
  std::string sentence;  // what that changes, and whence it is known that some jobs ran so
};
/// The other ways that sources.yaml knows for `record`, which is as_published(). Throws UserError for a broken
/// sources.yaml.
std::vector<OtherWay> other_ways(const sim::Settings& record);

}  // namespace orrery::scenarios
