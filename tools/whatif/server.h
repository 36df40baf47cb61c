// HTTP for the what-if page with this program's own engine behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace orrery::tools {

struct ServerOptions {
  std::string address = "127.0.0.1";  // in digits
  std::uint16_t port = 0;             // 0: any that is free
  std::string token;                  // what every request must show; empty: nothing
  unsigned threads = 1;               // requests answered at a time
};

/// Serves until Ctrl-C or SIGTERM, which end it within a second; where a step is being simulated then that takes
/// longer, the program ends here. GET / is the page; POST /answer takes a request of tools/whatif/engine.h and returns
/// its answer; work whose client has left is dropped. Requests with bodies above 8 MiB, without the token, of another
/// page's (by Host and by type) or slower than 30 s are refused in one line. `listening` is told the port. Throws
/// sim::UserError where the address cannot be listened on.
void serve_page(const ServerOptions& options, const std::function<void(std::uint16_t)>& listening);

}  // namespace orrery::tools
