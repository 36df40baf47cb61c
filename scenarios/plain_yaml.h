// Internal to the room: a reader for the plain part of YAML that shipped documents are written in, some ten times
// faster than a parser of the whole language.
#pragma once

#include <string>

namespace YAML {
class EventHandler;
}

namespace orrery::scenarios {

/// Sends the events of a document to `out`, as YAML::Parser would; false where the text holds anything beyond what
/// plain_yaml.cc lists, right or wrong, after events that count for nothing.
bool read_plain_yaml(const std::string& text, YAML::EventHandler& out);

}  // namespace orrery::scenarios
