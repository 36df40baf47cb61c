// See cooling.h.
#include "workloads/job/cooling.h"

#include <algorithm>
#include <cmath>

namespace orrery::workloads {

namespace {

constexpr double kAirKelvin = 40, kLiquidKelvin = 22;  // from the stream to the GPU, at the board's limit
constexpr double kRowKelvin = 6.6;                     // from row to row in air, likewise

}  // namespace

std::string_view name_of(Cooling::By by) {
  switch (by) {
    case Cooling::By::unstated:
      return "unstated";
    case Cooling::By::air:
      return "air";
    case Cooling::By::liquid:
      return "liquid";
  }
  return "";
}

Cooling usual_cooling(Cooling::By by, double limit_w) {
  Cooling cooling;
  cooling.by = by;
  if (by == Cooling::By::liquid) {
    cooling.inlet_c = 30;
    cooling.resistance = kLiquidKelvin / limit_w;
    cooling.time_constant_s = 10;
  } else {
    cooling.resistance = kAirKelvin / limit_w;
    cooling.heating = kRowKelvin / limit_w;
    cooling.rows = 2;
  }
  return cooling;
}

double reference_temperature_c(double limit_w) {
  const Cooling usual = usual_cooling(Cooling::By::air, limit_w);
  const double ahead = static_cast<double>(usual.rows - 1) / 2;  // GPUs ahead, in the mean over rows
  return usual.inlet_c + (usual.resistance + ahead * usual.heating) * limit_w;
}

std::vector<WarmRow> warm_rows(const Cooling& cooling, const calibration::PowerModel& power, double own_limit_w,
                               double leakage_per_k, double warmer_k, const calibration::Duty& duty) {
  const double reference = reference_temperature_c(own_limit_w);
  std::vector<WarmRow> rows;
  double ahead_w = 0;
  for (std::int64_t i = 0; i < cooling.rows; ++i) {
    const double stream = cooling.inlet_c + cooling.heating * ahead_w;
    const double room = (cooling.slowdown_c - stream) / cooling.resistance;
    WarmRow row;
    row.throttled = room < power.limit;
    row.limit_w = std::min(power.limit, room);
    row.temperature_c = stream + cooling.resistance * row.limit_w;
    calibration::PowerModel board = power;
    board.limit = row.limit_w;
    // A watt makes `resistance` kelvin, a kelvin a hundredth of what stands: each round leaves about a twentieth of the
    // error before it.
    constexpr int kRounds = 40;
    for (int round = 0; round < kRounds; ++round) {
      const double kelvin = warmer_k + row.temperature_c - reference;
      board.standing = power.standing * std::max(0.0, 1 + leakage_per_k * kelvin);
      row.clock = calibration::clock_within_limit(board, duty);
      row.watts = std::min(row.limit_w, calibration::joules_at(board, duty, row.clock) /
                                            calibration::seconds_at(board, duty, row.clock));
      const double before = row.temperature_c;
      row.temperature_c = stream + cooling.resistance * row.watts;
      if (std::abs(row.temperature_c - before) < 1e-9) break;
    }
    row.throttled = row.throttled && row.clock < 1;
    ahead_w += row.watts;
    rows.push_back(row);
  }
  return rows;
}

double least_room_w(const Cooling& cooling, double limit_w) {
  const double ahead = static_cast<double>(cooling.rows - 1) * limit_w;
  return (cooling.slowdown_c - cooling.inlet_c - cooling.heating * ahead) / cooling.resistance;
}

}  // namespace orrery::workloads
