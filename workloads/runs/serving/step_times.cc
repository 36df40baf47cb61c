// Closed sums over segments.
#include "workloads/runs/serving/step_times.h"

#include <algorithm>

namespace orrery::serving {

namespace {

/// Iterations from `keys` on that lie in the segment, at most `most`.
std::int64_t steps_inside(const Segment& segment, std::int64_t sequences, std::int64_t keys, std::int64_t most) {
  const std::int64_t room = (segment.until - keys - 1) / sequences + 1;
  return std::min(most, std::max<std::int64_t>(room, 1));
}

Time sum_inside(const Segment& segment, std::int64_t sequences, std::int64_t keys, std::int64_t steps) {
  return steps * segment.at(keys) + segment.per_key * sequences * (steps * (steps - 1) / 2);
}

}  // namespace

Time time_of_steps(StepTimes& times, std::int64_t sequences, std::int64_t keys, std::int64_t steps) {
  Time sum = 0;
  while (steps > 0) {
    const Segment segment = times.decode(sequences, keys);
    const std::int64_t here = steps_inside(segment, sequences, keys, steps);
    sum += sum_inside(segment, sequences, keys, here);
    keys += here * sequences;
    steps -= here;
  }
  return sum;
}

std::int64_t steps_to_reach(StepTimes& times, std::int64_t sequences, std::int64_t keys, std::int64_t most,
                            Time at_least) {
  std::int64_t done = 0;
  Time left = at_least;
  while (done < most && left > 0) {
    const Segment segment = times.decode(sequences, keys);
    const std::int64_t here = steps_inside(segment, sequences, keys, most - done);
    const Time whole = sum_inside(segment, sequences, keys, here);
    if (whole < left) {
      left -= whole;
      keys += here * sequences;
      done += here;
      continue;
    }
    std::int64_t low = 1, high = here;  // the first that reaches it lies in here
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (sum_inside(segment, sequences, keys, middle) >= left)
        high = middle;
      else
        low = middle + 1;
    }
    return done + low;
  }
  return done;
}

}  // namespace orrery::serving
