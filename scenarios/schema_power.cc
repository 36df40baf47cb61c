// The part of the scenario language's table that power and temperature have. See schema.h.
#include "scenarios/schema_power.h"

#include <utility>

#include "sim/key_rows.h"

namespace orrery::scenarios {

namespace {

std::vector<Key> cooling_keys() {
  return {
      sim::key_row("power.cooling", "mapping", "", "-", {},
                   "How nodes are cooled: temperatures of their GPUs follow from what they draw, leakage and slowdown "
                   "from those, and everybody waits for the warmest row."),
      sim::key_row("power.cooling.kind", "choice", "", "", {"air", "liquid"}, "What carries the heat away."),
      sim::key_row("power.cooling.inlet", "number", "degrees C", "25 of air, 30 of coolant", {},
                   "Temperature of the air or coolant that enters a node.", {"-20", "80"}),
      sim::key_row("power.cooling.resistance", "number", "K/W", "40 K of air, 22 K of coolant at the board's limit", {},
                   "How much warmer a GPU is than what flows past it, for each watt that it draws.", {"0.001", "1"}),
      sim::key_row("power.cooling.heating", "number", "K/W", "6.6 K of air, 0 of coolant at the board's limit", {},
                   "How much warmer the stream is behind a GPU, for each watt that the GPU draws.", {"0", "1"}),
      sim::key_row("power.cooling.rows", "integer", "", "2 of air, 1 of coolant", {},
                   "GPUs that a stream passes one behind the other.", {"1", "16"}),
      sim::key_row("power.cooling.slowdown", "number", "degrees C", "87", {},
                   "Temperature above which a GPU lowers its clock.", {"30", "150"}),
      sim::key_row("power.cooling.time_constant", "quantity", "time", "30 s of air, 10 s of coolant", {},
                   "Time after which 63 % of a change of power have become temperature.", {"1 ms", "1 h"}),
  };
}

}  // namespace

std::vector<Key> power_keys() {
  std::vector<Key> keys{
      sim::key_row("power", "mapping", "", "-", {}, "What the site allows and says about power."),
      sim::key_row("power.cap", "quantity", "W", "the device's limit", {},
                   "Power limit of every GPU, where it is lower than the device's own: its clock follows.",
                   {"1 W", "100 kW"}),
      sim::key_row("power.pue", "number", "", "1", {},
                   "Power usage effectiveness: what the whole site draws over what its nodes draw.", {"1", "10"}),
      sim::key_row("power.carbon_g_per_kwh", "number", "g/kWh", "-", {},
                   "Carbon intensity of the grid, in grams of CO2 for each kilowatt hour: gives the carbon of a token.",
                   {"0", "10000"}),
      sim::key_row("power.warmer", "number", "K", "0", {},
                   "How much warmer GPUs are than those that the device's constants come from: they leak more, and "
                   "their limit leaves the clock less.",
                   {"-60", "60"}),
      sim::key_row("power.temperature_spread", "number", "K", "0", {},
                   "Standard deviation of GPUs' temperatures: who waits for others goes at the pace of the warmest.",
                   {"0", "30"}),
      sim::key_row("power.leakage_per_kelvin", "number", "", "0.01", {},
                   "How much more of what stands a GPU draws for each kelvin.", {"0", "0.1"}),
  };
  for (Key& key : cooling_keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace orrery::scenarios
