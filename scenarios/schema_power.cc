// The part of the scenario language's table that power and temperature have. See schema.h.
#include "scenarios/schema_power.h"

namespace orrery::scenarios {

std::vector<Key> power_keys() {
  return {
      {"power", "mapping", "", "-", {}, "What the site allows and says about power."},
      {"power.cap",
       "quantity",
       "W",
       "the device's limit",
       {},
       "Power limit of every GPU, where it is lower than the device's own: its clock follows.",
       {"1 W", "100 kW"}},
      {"power.pue",
       "number",
       "",
       "1",
       {},
       "Power usage effectiveness: what the whole site draws over what its nodes draw.",
       {"1", "10"}},
      {"power.carbon_g_per_kwh",
       "number",
       "g/kWh",
       "-",
       {},
       "Carbon intensity of the grid, in grams of CO2 for each kilowatt hour: gives the carbon of a token.",
       {"0", "10000"}},
      {"power.warmer",
       "number",
       "K",
       "0",
       {},
       "How much warmer GPUs are than those that the device's constants come from: they leak more, and their limit "
       "leaves "
       "the clock less.",
       {"-60", "60"}},
      {"power.temperature_spread",
       "number",
       "K",
       "0",
       {},
       "Standard deviation of GPUs' temperatures: who waits for others goes at the pace of the warmest.",
       {"0", "30"}},
      {"power.leakage_per_kelvin",
       "number",
       "",
       "0.01",
       {},
       "How much more of what stands a GPU draws for each kelvin.",
       {"0", "0.1"}},
  };
}

}  // namespace orrery::scenarios
