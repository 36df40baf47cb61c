// Internal to the room: names of releases that change nothing of a document that ships. They stand in that document, as
// `also_called: {NAME: what it is}`, so that a release without a difference is a line and no file.
#pragma once

#include <map>
#include <string>

#include "scenarios/library.h"

namespace orrery::scenarios {

struct OtherName {
  std::string of;     // the document that it is a name of
  std::string about;  // what it is, with its source
};

/// The other names of the documents of a shelf that scenarios name. What ships is read for them once per process, when
/// they are first asked for.
const std::map<std::string, OtherName>& other_names(const Shelf& shelf);

/// The document that another name stands for: its own name and provenance over what it inherits, `inherits`.
sim::Settings document_of_name(const std::string& name, const OtherName& other, const sim::Place& place);

}  // namespace orrery::scenarios
