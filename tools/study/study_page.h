// What the HTML report of `orrery sweep` and `orrery search` shows, as data for the page.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/study/point.h"

namespace orrery::tools {

/// A key that the points of a study differ in.
struct StudyKey {
  std::string name;
  std::vector<std::string> values;
  std::vector<std::uint32_t> choice;  // by point: which of the values
};

struct Study {
  std::string title, subtitle;
  std::vector<StudyKey> keys;
  std::vector<PointResult> points;
  std::vector<std::array<std::string, 3>> winner;               // cards of what won: name, value, note; shown first
  std::vector<std::pair<std::string, std::string>> facts;       // name and value, shown behind it
  std::vector<std::pair<std::string, std::size_t>> infeasible;  // reasons of points that are not listed, how many each
};

/// Points that no other beats: none is at least as good in throughput, memory and cost (where there is one), and better
/// in one of them. By point; false for what is not ok.
std::vector<char> study_front(const std::vector<PointResult>& points);

/// Numbers as columns of 32-bit floats, keys as numbers of their values: 100,000 points take about 4 MB. Of more points
/// than kMostStudyBytes hold those of the highest throughput are kept, and the page says so.
nlohmann::ordered_json study_page(const Study& study);
inline constexpr std::size_t kMostStudyBytes = 4'400'000;

}  // namespace orrery::tools
