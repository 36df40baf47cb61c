// Best fit decreasing.
#include "workloads/runs/rl/packing.h"

#include <algorithm>
#include <set>
#include <vector>

namespace orrery::rl {

Packed pack(std::span<const Sample> samples, std::int64_t most, std::int64_t ranks, bool several) {
  std::vector<std::int64_t> lengths;
  lengths.reserve(samples.size());
  double tokens = 0, squares = 0;
  for (const Sample& sample : samples) {
    const std::int64_t length = static_cast<std::int64_t>(sample.input) + sample.output;
    lengths.push_back(length);
    tokens += static_cast<double>(length);
    squares += static_cast<double>(length) * static_cast<double>(length);
  }
  Packed packed;
  if (lengths.empty()) return packed;
  std::sort(lengths.rbegin(), lengths.rend());
  std::multiset<std::int64_t> room;  // of the bins that are open
  std::int64_t bins = 0;
  for (const std::int64_t length : lengths) {
    const auto fits = several ? room.lower_bound(length) : room.end();
    std::int64_t left = 0;
    if (fits != room.end()) {
      left = *fits - length;
      room.erase(fits);
    } else {
      ++bins;
      left = std::max<std::int64_t>(0, most - length);
      packed.most = std::max(packed.most, length);
    }
    packed.most = std::max(packed.most, most - left);
    if (left > 0) room.insert(left);
  }
  packed.most = std::max(lengths.front(), std::min(packed.most, most));
  if (!several) packed.most = lengths.front();
  packed.each = (bins + ranks - 1) / ranks;
  packed.tokens = tokens / static_cast<double>(packed.each * ranks);
  packed.document = squares / tokens;
  return packed;
}

}  // namespace orrery::rl
