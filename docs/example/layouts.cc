// Which of two layouts is faster? A program of its own that uses orrery as a library.
#include <orrery/orrery.h>

#include <iostream>

int main() {
  try {
    for (const char* layout : {"parallelism.tensor=2", "parallelism.tensor=4"}) {
      const orrery::Scenario scenario = orrery::load("gpt3-6.7b-h100", {layout, "parallelism.data=null"});
      const orrery::Plan plan = orrery::plan(scenario);
      const orrery::Result result = orrery::run(plan);
      std::cout << layout << ": " << result.iteration_time_s << " s a step, " << result.mfu_pct << " % MFU, "
                << plan.ranks_simulated() << " of " << plan.ranks() << " ranks simulated\n";
    }
  } catch (const orrery::Error& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
