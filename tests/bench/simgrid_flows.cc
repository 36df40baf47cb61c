// The same table of flows in SimGrid, to compare with `orrery flows`: simgrid_flows TABLE HOSTS HOSTS_PER_LEAF. The
// table is one of orrery_flow_patterns, whose links are those of SimGrid's own fat tree; what it says of links is left
// out. Prints CPU seconds of reading, making the platform and simulating apart, and when the last flow ends. Not part
// of the build, which needs no SimGrid: g++ -O2 -std=c++17 tests/bench/simgrid_flows.cc -lsimgrid (3.32).
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <simgrid/s4u.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace s4u = simgrid::s4u;

constexpr double kLinkRate = 25e9;  // bytes/s, as `orrery flows` takes without --capacity

struct Flow {
  std::size_t from = 0, to = 0;
  double bytes = 0, start_s = 0;
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::vector<Flow> read_flows(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  std::vector<Flow> flows;
  while (std::getline(in, line)) {
    Flow flow;
    if (std::sscanf(line.c_str(), "%*u,%zu,%zu,%lf,%lf", &flow.from, &flow.to, &flow.bytes, &flow.start_s) != 4)
      throw std::invalid_argument(line);
    flows.push_back(flow);
  }
  return flows;
}

/// Flows share links max-min fairly and nothing else: no latency, no headers, no traffic back.
void choose_model() {
  for (const char* setting : {"network/model:CM02", "network/TCP-gamma:0", "network/latency-factor:1",
                              "network/bandwidth-factor:1", "network/weight-S:0", "network/crosstraffic:0"})
    s4u::Engine::set_config(setting);
}

std::vector<s4u::Host*> make_hosts(s4u::Engine& engine, unsigned hosts, unsigned of_leaf) {
  const auto make = [](s4u::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
    auto* host = zone->create_host(std::to_string(id), 1e9)->seal();
    return std::make_pair(host->get_netpoint(), static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
  };
  s4u::create_fatTree_zone("tree", engine.get_netzone_root(), {2, {of_leaf, hosts / of_leaf}, {1, of_leaf}, {1, 1}},
                           {make, {}, {}}, kLinkRate, 0.0, s4u::Link::SharingPolicy::SPLITDUPLEX)
      ->seal();
  std::vector<s4u::Host*> made;
  for (unsigned id = 0; id < hosts; ++id) made.push_back(s4u::Host::by_name(std::to_string(id)));
  return made;
}

double simulate(s4u::Engine& engine, const std::vector<s4u::Host*>& hosts, const std::vector<Flow>& flows) {
  double end = 0;
  s4u::Actor::create("sender", hosts[0], [&] {
    std::vector<s4u::CommPtr> under_way;
    for (const Flow& flow : flows) {
      if (flow.start_s > s4u::Engine::get_clock()) s4u::this_actor::sleep_until(flow.start_s);
      const auto bytes = static_cast<std::uint64_t>(flow.bytes);
      under_way.push_back(s4u::Comm::sendto_async(hosts[flow.from], hosts[flow.to], bytes));
    }
    for (const s4u::CommPtr& flow : under_way) flow->wait();
    end = s4u::Engine::get_clock();
  });
  engine.run();
  return end;
}

}  // namespace

int main(int argc, char** argv) try {
  s4u::Engine engine(&argc, argv);
  if (argc != 4) throw std::invalid_argument("simgrid_flows TABLE HOSTS HOSTS_PER_LEAF");
  choose_model();
  const double begin = cpu_seconds();
  const std::vector<Flow> flows = read_flows(argv[1]);
  const double read = cpu_seconds();
  const auto hosts =
      make_hosts(engine, static_cast<unsigned>(std::stoul(argv[2])), static_cast<unsigned>(std::stoul(argv[3])));
  const double made = cpu_seconds();
  const double end = simulate(engine, hosts, flows);
  std::printf("flows: %zu, CPU seconds: reading %.3f, platform %.3f, simulating %.3f; last end %.9f s\n", flows.size(),
              read - begin, made - read, cpu_seconds() - made, end);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "simgrid_flows: %s\n", error.what());
  return 2;
}
