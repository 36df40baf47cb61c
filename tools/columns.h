// Every column of every table, and every key of every JSON document, that a command writes: its unit and its meaning.
// `orrery help COLUMN` and the manual pages print this; a test runs the commands and finds each of their columns here.
#pragma once

#include <string>
#include <vector>

namespace orrery::tools {

struct ColumnDoc {
  std::string name;                   // as it stands in the table; a dotted path in a nested document
  std::string unit;                   // empty when it has none
  std::string meaning;                // one sentence
  std::vector<std::string> commands;  // that write it
};

const std::vector<ColumnDoc>& columns();

}  // namespace orrery::tools
