// `orrery flows`: max-min sharing alone. A table of flows, each with its start, its bytes and the links it crosses, is
// handed to sim::Fluid, which moves the transfers of training steps too; so what is timed and checked here is what runs
// there. All links have one capacity and no latency. Left out: routing (the table names the links).
#include <fmt/format.h>

#include <cstdint>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "sim/error.h"
#include "sim/settings.h"
#include "sim/text_file.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/flow_table.h"
#include "tools/report/output.h"
#include "tools/report/report.h"

namespace orrery::tools {

namespace {

using sim::UserError;

struct FlowsOptions {
  std::string paths, capacity = "25 GB/s", out, json;
};

std::string read_table(const std::string& file) {
  constexpr std::size_t kLargest = std::size_t{8} << 30;  // a hundred million flows
  return sim::read_text(file, "a table of flows (CSV)", kLargest);
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int flows(const FlowsOptions& options) {
  check_writable(options.out);
  check_writable(options.json);
  if (options.json == "-" && (options.out.empty() || options.out == "-")) {
    throw UserError("--json: got -, where the table of ends goes to standard output too, expected a file for one");
  }
  const sim::Bandwidth capacity = sim::Settings::scalar(options.capacity, {"--capacity", 0, 0}).as_bandwidth();
  const double begin = cpu_seconds();
  const std::string text = read_table(options.paths);
  const FlowTable table = read_flow_table(options.paths, text, capacity);
  const double read = cpu_seconds();
  const SharedFlows shared = share(table);
  const double end = cpu_seconds();
  const bool to_stdout = options.out.empty() || options.out == "-";
  write_output(to_stdout ? "-" : options.out, [&](std::ostream& out) { out << ends_csv(table, shared); });
  if (!options.json.empty()) {
    const nlohmann::ordered_json json{{"solves", shared.solves},         {"flows", table.id.size()},
                                      {"links", table.crossings.size()}, {"cpu_s", end - begin},
                                      {"reading_s", read - begin},       {"sharing_s", end - read}};
    write_output(options.json, [&](std::ostream& out) { write_json(out, json); });
  }
  if (options.json == "-") return kDone;
  // Standard output stays one document.
  (to_stdout ? std::cerr : std::cout) << fmt::format(
      "solves: {}, flows: {}, links: {}, CPU seconds: {:.3f} (reading {:.3f}, sharing {:.3f})\n", shared.solves,
      table.id.size(), table.crossings.size(), end - begin, read - begin, end - read);
  return kDone;
}

}  // namespace

Action declare_flows(CommandOptions app) {
  const auto options = std::make_shared<FlowsOptions>();
  app.add_option("paths", options->paths, "table of flows (CSV): id,src,dst,bytes,start_s,links").required();
  app.add_option("--capacity", options->capacity, "of every link, one direction (default 25 GB/s)").type_name("RATE");
  app.add_option("--json", options->json, "write counts and CPU seconds as JSON to FILE, or to standard output for -")
      .type_name("FILE");
  app.add_option("--out", options->out, "write id,end_s to FILE (default: standard output)").type_name("FILE");
  return [options] { return flows(*options); };
}

}  // namespace orrery::tools
