// Names, lanes and groups of a graph.
#include "tools/replay/graph.h"

#include <algorithm>
#include <utility>

namespace orrery::tools {

namespace {

/// The place of `value`, which is appended where it is not there.
template <class Value>
std::size_t place_of(std::vector<Value>& all, const Value& value) {
  const auto at = std::find(all.begin(), all.end(), value);
  const auto place = static_cast<std::size_t>(at - all.begin());
  if (at == all.end()) all.push_back(value);
  return place;
}

}  // namespace

std::uint32_t GraphWriter::name(const std::string& text) {
  const auto [at, added] = names_.try_emplace(text, static_cast<std::uint32_t>(graph_.names.size()));
  if (added) graph_.names.push_back(text);
  return at->second;
}

std::int32_t GraphWriter::lane(const std::string& text) {
  return static_cast<std::int32_t>(place_of(graph_.lanes, text));
}

std::uint32_t GraphWriter::group(const RankGroup& group) {
  return static_cast<std::uint32_t>(place_of(graph_.groups, group));
}

std::uint32_t GraphWriter::add(GraphNode node) {
  graph_.nodes.push_back(std::move(node));
  return static_cast<std::uint32_t>(graph_.nodes.size()) - 1;
}

}  // namespace orrery::tools
