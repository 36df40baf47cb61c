// `orrery page`: the what-if page with this program behind it, on this machine alone unless told otherwise.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <memory>

#include "sim/error.h"
#include "tools/command_options.h"
#include "tools/commands/commands.h"
#include "tools/parallel.h"
#include "tools/whatif/server.h"

namespace orrery::tools {

namespace {

constexpr std::size_t kShortestToken = 16;

void check(const ServerOptions& options) {
  const bool local = options.address == "127.0.0.1" || options.address == "::1";
  if (!local && options.token.empty()) {
    throw sim::UserError(fmt::format(
        "--listen: got {} without --token, expected --token TOKEN beside it: others reach it", options.address));
  }
  const auto good = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  const std::string& token = options.token;
  if (!token.empty() && (token.size() < kShortestToken || !std::all_of(token.begin(), token.end(), good)))
    throw sim::UserError(fmt::format("--token: expected at least {} letters, digits, '-', '_' or '.'", kShortestToken));
}

int open_page(ServerOptions options) {
  check(options);
  if (options.threads == 0) options.threads = default_jobs();
  serve_page(options, [&](std::uint16_t port) {
    const bool digits_of_v6 = options.address.find(':') != std::string::npos;
    std::cout << fmt::format("the what-if page: http://{}:{}/{}   (Ctrl-C ends it)\n",
                             digits_of_v6 ? "[" + options.address + "]" : options.address, port,
                             options.token.empty() ? "" : "?token=" + options.token)
              << std::flush;
  });
  return kDone;
}

}  // namespace

Action declare_page(CommandOptions app) {
  const auto options = std::make_shared<ServerOptions>();
  options->port = 8765;
  options->threads = 0;
  app.add_option("--port", options->port, "port to listen on; 0 for any that is free (default 8765)")
      .check(Range(0, 65535));
  app.add_option("--listen", options->address,
                 "address to listen on, in digits (default 127.0.0.1: this machine alone); others need --token")
      .type_name("ADDRESS");
  app.add_option("--token", options->token, "what a browser must show: the page's address ends in ?token=TOKEN")
      .type_name("TOKEN");
  app.add_option("--jobs", options->threads, "requests answered at a time (default: one per core)")
      .check(Range(1, 1024));
  return [options] { return open_page(*options); };
}

}  // namespace orrery::tools
