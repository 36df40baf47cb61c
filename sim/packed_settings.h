// Documents in a form that is quick to read: what ships with the program is parsed once, when the program is built, so
// that a run does not spend most of its instructions on reading what it knows already (scenarios/packed_documents.h).
//
// A packed document is its nodes in their order. A node: a byte with its kind and whether it was quoted; its line less
// that of the node ahead of it, and its column; then the text of a scalar, the number of items of a list and the items,
// or the number of members of a mapping and each one's key and value. A list of numbers, which its first byte says too,
// has how many bytes its items take ahead of them, and what they are as numbers, eight bytes each, behind them: tables
// of thousands are read without a value for each. Numbers are else written in groups of seven bits, the lowest first;
// what may be negative with its sign in the lowest bit; texts behind their length.
#pragma once

#include <string>
#include <string_view>

#include "sim/settings.h"

namespace orrery::sim {

/// Of a document: a value that lies in no other.
std::string packed(const Settings& document);

/// The document that `bytes` hold, as read from `file`, with places and paths. `checked_as`: what
/// checked_as() is to say of it; its text has to stay. Bytes that are no document are our own mistake.
Settings unpacked(std::string_view bytes, const FileName& file, std::string_view checked_as = {});

}  // namespace orrery::sim
