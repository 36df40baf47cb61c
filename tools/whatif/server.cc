// A small server on Boost.Beast: coroutines on as many threads as there are engines. What a stranger's page could do is
// held off: it cannot send JSON across origins without asking first, which nobody answers, and it cannot pass for this
// host by a name of its own, since names other than localhost are refused. Left out: TLS, which a tunnel gives;
// caching.
#include "tools/whatif/server.h"

// clang-format off
#include <utility>  // first: Boost 1.74 uses std::exchange without it
// clang-format on

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "sim/error.h"
#include "tools/whatif/engine.h"
#include "tools/whatif/page_text.h"

namespace orrery::tools {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

namespace {

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

constexpr std::size_t kMostBody = std::size_t{8} << 20;
constexpr std::size_t kMostHeader = std::size_t{16} << 10;
constexpr std::chrono::seconds kPatience{30};  // for a request to come in, and for an answer to go out
constexpr std::chrono::milliseconds kPause{100};
constexpr int kMostConnections = 64;

/// Engines that are free; there are as many as threads, so that one is.
class Engines {
 public:
  std::string answer(const std::string& request) {
    std::unique_ptr<WhatIfEngine> engine = take();
    std::string text = engine->answer(request);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(engine));
    return text;
  }

 private:
  std::unique_ptr<WhatIfEngine> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<WhatIfEngine>(WhatIfEngine::Names::shipped);
    std::unique_ptr<WhatIfEngine> engine = std::move(free_.back());
    free_.pop_back();
    return engine;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<WhatIfEngine>> free_;
};

/// Takes as long whatever differs, so that nobody can feel their way to the token.
bool same(std::string_view a, std::string_view b) {
  unsigned differ = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    differ |= static_cast<unsigned char>(a[i] ^ (b.empty() ? 1 : b[i % b.size()]));
  return differ == 0;
}

/// "127.0.0.1" of "127.0.0.1:8080", "[::1]" of "[::1]:8080".
std::string_view host_of(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const bool port = colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
  return port ? host.substr(0, colon) : host;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

/// The token of "/?token=...", which opens the page.
std::string_view token_in(std::string_view target) {
  const std::size_t at = target.find("?token=");
  return at == std::string_view::npos ? "" : target.substr(at + 7);
}

class Site {
 public:
  explicit Site(const ServerOptions& options) : token_(options.token) {}

  Response respond(const Request& request) {
    const std::string_view target(request.target().data(), request.target().size());
    if (token_.empty() && !is_local(request)) return refuse(http::status::forbidden, "got a host that is not this one");
    if (path_of(target) == "/" && request.method() == http::verb::get) {
      if (!token_.empty() && !same(token_in(target), token_))
        return refuse(http::status::forbidden, "got no token or another, expected /?token=TOKEN");
      return reply(http::status::ok, "text/html; charset=utf-8", page_);
    }
    if (path_of(target) == "/answer" && request.method() == http::verb::post) return answer(request);
    return refuse(http::status::not_found, "expected GET / or POST /answer");
  }
  static Response refuse(http::status status, const std::string& line) {
    return reply(status, "text/plain; charset=utf-8", "orrery serve: " + line + "\n");
  }

 private:
  static bool is_local(const Request& request) {
    const auto field = request[http::field::host];
    const std::string_view host = host_of({field.data(), field.size()});
    return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
  }
  static Response reply(http::status status, std::string_view type, std::string body) {
    Response response{status, 11};
    response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
    response.set(http::field::cache_control, "no-store");
    response.set("X-Content-Type-Options", "nosniff");
    response.set("X-Frame-Options", "DENY");
    response.set("Referrer-Policy", "no-referrer");
    response.body() = std::move(body);
    return response;
  }
  Response answer(const Request& request) {
    const auto shown = request["X-Orrery-Token"];
    if (!token_.empty() && !same({shown.data(), shown.size()}, token_))
      return refuse(http::status::forbidden, "got no token or another, expected the header X-Orrery-Token");
    const auto type = request[http::field::content_type];
    if (!type.starts_with("application/json"))
      return refuse(http::status::unsupported_media_type, "expected Content-Type: application/json");
    return reply(http::status::ok, "application/json", engines_.answer(request.body()));
  }

  std::string token_;
  std::string page_ = whatif_page();
  Engines engines_;
};

/// What a broken request is answered with.
Response complaint(const beast::error_code& error) {
  if (error == http::error::body_limit)
    return Site::refuse(http::status::payload_too_large, "got more than 8 MiB, expected a scenario");
  return Site::refuse(http::status::bad_request, "got no request of HTTP: " + error.message());
}

/// One of the connections there may be, as long as it lives.
class Place {
 public:
  explicit Place(std::atomic<int>& taken) : taken_(taken) { taken_.fetch_add(1); }
  ~Place() { taken_.fetch_sub(1); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  std::atomic<int>& taken_;
};

asio::awaitable<void> talk(tcp::socket socket, Site& site, std::atomic<int>& connections) {
  const Place place(connections);
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(kMostHeader + kMostBody);
  beast::error_code error;
  for (bool open = true; open;) {
    http::request_parser<http::string_body> parser;
    parser.body_limit(kMostBody);
    parser.header_limit(kMostHeader);
    stream.expires_after(kPatience);
    co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error == http::error::end_of_stream || error == beast::error::timeout ||
        error == asio::error::connection_reset || error == asio::error::operation_aborted)
      break;
    Response response = error ? complaint(error) : site.respond(parser.get());
    open = !error && parser.get().keep_alive();
    response.keep_alive(open);
    response.prepare_payload();
    stream.expires_after(kPatience);
    co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
  }
  stream.socket().shutdown(tcp::socket::shutdown_send, error);
}

asio::awaitable<void> accept(tcp::acceptor& acceptor, Site& site, std::atomic<int>& connections) {
  for (;;) {
    beast::error_code error;
    tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) co_return;
    if (error) {  // out of descriptors, say: again when some are free
      asio::steady_timer pause(acceptor.get_executor(), kPause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if (connections.load() >= kMostConnections) continue;  // the socket is closed as it goes
    asio::co_spawn(asio::make_strand(acceptor.get_executor()), talk(std::move(socket), site, connections),
                   asio::detached);
  }
}

tcp::acceptor listen(asio::io_context& context, const ServerOptions& options) {
  beast::error_code error;
  const auto address = asio::ip::make_address(options.address, error);
  if (error) {
    throw sim::UserError(
        fmt::format("--listen: got {}, expected an address in digits, as in 0.0.0.0", options.address));
  }
  try {
    return tcp::acceptor(context, tcp::endpoint(address, options.port));
  } catch (const boost::system::system_error& failed) {
    throw sim::UserError(fmt::format("--port: {} port {} cannot be listened on: {}", options.address, options.port,
                                     failed.code().message()));
  }
}

}  // namespace

void serve_page(const ServerOptions& options, const std::function<void(std::uint16_t)>& listening) {
  Site site(options);  // before the context, whose end is that of the connections that use it
  std::atomic<int> connections{0};
  asio::io_context context(static_cast<int>(options.threads));
  tcp::acceptor acceptor = listen(context, options);
  asio::signal_set signals(context, SIGINT, SIGTERM);
  signals.async_wait([&](const beast::error_code&, int) { context.stop(); });
  asio::co_spawn(context, accept(acceptor, site, connections), asio::detached);
  listening(acceptor.local_endpoint().port());
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < options.threads; ++i) threads.emplace_back([&] { context.run(); });
  context.run();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace orrery::tools
