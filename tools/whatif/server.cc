// A small server on Boost.Beast. One thread talks: every connection is a coroutine on it, and nothing that it does
// takes long. Engines simulate on threads of their own, so that the page opens, clients that left are noticed and a
// signal is heard however much is being computed. What a stranger's page could do is held off: it cannot send JSON
// across origins without asking first, which nobody answers, and it cannot pass for this host by a name of its own,
// since names other than localhost are refused. Left out: TLS, which a tunnel gives; caching; a client that shuts its
// sending side down and waits counts as one that left.
#include "tools/whatif/server.h"

// clang-format off
#include <utility>  // first: Boost 1.74 uses std::exchange without it
// clang-format on

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
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
constexpr std::chrono::milliseconds kGrace{500};  // for what is being simulated when the end comes
constexpr std::size_t kMostConnections = 64;

/// Engines that are free; there are as many as threads, so that one is.
class Engines {
 public:
  std::string answer(const std::string& request, const WhatIfEngine::Wanted& wanted) {
    std::unique_ptr<WhatIfEngine> engine = take();
    std::string text = engine->answer(request, wanted);
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

  /// Nothing where an engine is to answer.
  std::optional<Response> respond(const Request& request) const {
    const std::string_view target(request.target().data(), request.target().size());
    if (token_.empty() && !is_local(request)) return refuse(http::status::forbidden, "got a host that is not this one");
    if (path_of(target) == "/" && request.method() == http::verb::get) {
      if (!token_.empty() && !same(token_in(target), token_))
        return refuse(http::status::forbidden, "got no token or another, expected /?token=TOKEN");
      return reply(http::status::ok, "text/html; charset=utf-8", page_);
    }
    if (path_of(target) == "/answer" && request.method() == http::verb::post) return admit(request);
    return refuse(http::status::not_found, "expected GET / or POST /answer");
  }
  static Response refuse(http::status status, const std::string& line) {
    return reply(status, "text/plain; charset=utf-8", "orrery page: " + line + "\n");
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

 private:
  static bool is_local(const Request& request) {
    const auto field = request[http::field::host];
    const std::string_view host = host_of({field.data(), field.size()});
    return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
  }
  std::optional<Response> admit(const Request& request) const {
    const auto shown = request["X-Orrery-Token"];
    if (!token_.empty() && !same({shown.data(), shown.size()}, token_))
      return refuse(http::status::forbidden, "got no token or another, expected the header X-Orrery-Token");
    const auto type = request[http::field::content_type];
    if (!type.starts_with("application/json"))
      return refuse(http::status::unsupported_media_type, "expected Content-Type: application/json");
    return std::nullopt;
  }

  std::string token_;
  std::string page_ = whatif_page();
};

/// What a broken request is answered with.
Response complaint(const beast::error_code& error) {
  if (error == http::error::body_limit)
    return Site::refuse(http::status::payload_too_large, "got more than 8 MiB, expected a scenario");
  return Site::refuse(http::status::bad_request, "got no request of HTTP: " + error.message());
}

/// A question on its way through an engine; the engine's thread and the connection hold it together.
struct Question {
  Question(const asio::any_io_executor& talker, std::string asked) : text(std::move(asked)), answered(talker) {}
  std::string text, answer;
  std::atomic<bool> wanted{true};
  bool done = false;            // told on the thread that talks
  asio::steady_timer answered;  // cancelled when it is
};

/// Engines on threads of their own.
class Workshop {
 public:
  explicit Workshop(unsigned threads) : threads_(threads) {}

  void take(const std::shared_ptr<Question>& question) {
    asio::post(threads_, [this, question] {
      const auto wanted = [&] { return question->wanted.load() && !closing_.load(); };
      if (wanted()) {
        running_.fetch_add(1);
        question->answer = engines_.answer(question->text, wanted);
        running_.fetch_sub(1);
      }
      asio::post(question->answered.get_executor(), [question] {
        question->done = true;
        question->answered.cancel();
      });
    });
  }
  /// Drops what waits and what can be left between two points. A step that takes longer ends with the program, which
  /// holds nothing that it would have to keep.
  void close() {
    closing_.store(true);
    threads_.stop();
    const auto end = std::chrono::steady_clock::now() + kGrace;
    while (running_.load() > 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (running_.load() > 0) std::_Exit(EXIT_SUCCESS);
  }

 private:
  Engines engines_;
  std::atomic<bool> closing_{false};
  std::atomic<int> running_{0};
  asio::thread_pool threads_;
};

using Clock = std::chrono::steady_clock;

/// One that is open, as long as its coroutine lives.
struct Connection {
  beast::tcp_stream stream;
  Clock::time_point waits_since = Clock::now();
  bool waits = true;  // for its client
};

/// Those there are. Where they are as many as may be, who has waited longest for its client makes room.
class Connections {
 public:
  void add(Connection& connection) { all_.push_back(&connection); }
  void remove(const Connection& connection) { std::erase(all_, &connection); }
  bool make_room() {
    if (all_.size() < kMostConnections) return true;
    const auto longest = std::min_element(all_.begin(), all_.end(), [](const Connection* a, const Connection* b) {
      return std::pair(!a->waits, a->waits_since) < std::pair(!b->waits, b->waits_since);
    });
    if (!(*longest)->waits) return false;
    (*longest)->waits = false;  // it has gone, and ends when its turn comes
    (*longest)->stream.close();
    return true;
  }

 private:
  std::vector<Connection*> all_;
};

/// What connections share.
struct Served {
  Site site;
  Connections connections;
};

bool has_left(tcp::socket& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/// What an engine says; nothing where the client leaves before.
asio::awaitable<std::optional<Response>> answer(tcp::socket& socket, Workshop& workshop, std::string text) {
  const auto question = std::make_shared<Question>(socket.get_executor(), std::move(text));
  workshop.take(question);
  while (!question->done) {
    beast::error_code ignored;
    question->answered.expires_after(kPause);
    co_await question->answered.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (question->done || !has_left(socket)) continue;
    question->wanted.store(false);
    co_return std::nullopt;
  }
  co_return Site::reply(http::status::ok, "application/json", std::move(question->answer));
}

asio::awaitable<void> talk(tcp::socket socket, Served& served, Workshop& workshop) {
  Connection connection{beast::tcp_stream(std::move(socket))};
  served.connections.add(connection);
  const std::unique_ptr<Connection, std::function<void(Connection*)>> listed(
      &connection, [&served](const Connection* gone) { served.connections.remove(*gone); });
  beast::tcp_stream& stream = connection.stream;
  beast::flat_buffer buffer(kMostHeader + kMostBody);
  beast::error_code error;
  for (bool open = true; open;) {
    http::request_parser<http::string_body> parser;
    parser.body_limit(kMostBody);
    parser.header_limit(kMostHeader);
    connection.waits = true;
    connection.waits_since = Clock::now();
    stream.expires_after(kPatience);
    co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error == http::error::end_of_stream || error == beast::error::timeout ||
        error == asio::error::connection_reset || error == asio::error::operation_aborted)
      break;
    connection.waits = false;
    stream.expires_never();
    std::optional<Response> response = error ? complaint(error) : served.site.respond(parser.get());
    if (!response) response = co_await answer(stream.socket(), workshop, std::move(parser.get().body()));
    if (!response) break;
    open = !error && parser.get().keep_alive();
    response->keep_alive(open);
    response->prepare_payload();
    stream.expires_after(kPatience);
    co_await http::async_write(stream, *response, asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
  }
  stream.socket().shutdown(tcp::socket::shutdown_send, error);
}

asio::awaitable<void> accept(tcp::acceptor& acceptor, Served& served, Workshop& workshop) {
  for (;;) {
    beast::error_code error;
    tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) co_return;
    if (error) {  // out of descriptors, say: again when some are free
      asio::steady_timer pause(acceptor.get_executor(), kPause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if (!served.connections.make_room()) continue;  // the socket is closed as it goes
    asio::co_spawn(acceptor.get_executor(), talk(std::move(socket), served, workshop), asio::detached);
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
  Served served{Site(options), {}};  // before the context, whose end is that of the connections that use it
  asio::io_context context(1);
  tcp::acceptor acceptor = listen(context, options);
  Workshop workshop(options.threads);
  asio::signal_set signals(context, SIGINT, SIGTERM);
  signals.async_wait([&](const beast::error_code&, int) { context.stop(); });
  asio::co_spawn(context, accept(acceptor, served, workshop), asio::detached);
  listening(acceptor.local_endpoint().port());
  context.run();
  workshop.close();
}

}  // namespace orrery::tools
