// Reads without blocking on open, so that a pipe without a writer does not hang; waits with a limit for the data of a
// pipe. Left out: signals that interrupt a wait begin it anew.
#include "sim/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/error.h"

namespace orrery::sim {

namespace {

constexpr int kLongestSilence = 10'000;  // ms

class Reader {
 public:
  Reader(const std::string& file, const std::string& wanted, std::size_t most)
      : file_(file), wanted_(wanted), most_(most) {
    descriptor_ = file == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                              : ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor_ < 0) refuse_error();
  }
  ~Reader() { ::close(descriptor_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  TextBlock read() {
    struct stat facts {};
    if (::fstat(descriptor_, &facts) != 0) refuse_error();
    if (S_ISDIR(facts.st_mode)) refuse(fmt::format("is a folder, expected {}", wanted_));
    const bool regular = S_ISREG(facts.st_mode);
    if (!regular) most_ = std::min(most_, kLargestText);
    // One byte more than there is, so that what follows the last one is the end.
    const std::size_t expected = regular && facts.st_size > 0 ? static_cast<std::size_t>(facts.st_size) + 1 : kBlock;
    grow(std::min(expected, most_ + 1));
    if (S_ISFIFO(facts.st_mode) && file_ != "-") wait();
    while (more()) {
    }
    return {std::move(bytes_), size_};
  }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 16;

  void grow(std::size_t room) {
    std::unique_ptr<char[]> larger(new char[room]);  // not set to zero first
    if (size_ > 0) std::memcpy(larger.get(), bytes_.get(), size_);
    bytes_ = std::move(larger);
    room_ = room;
  }

  bool more() {
    if (size_ == room_) grow(2 * room_);
    char* const block = bytes_.get() + size_;
    ssize_t got = ::read(descriptor_, block, room_ - size_);
    while (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      wait();
      got = ::read(descriptor_, block, room_ - size_);
    }
    if (got < 0) refuse_error();
    const auto size = static_cast<std::size_t>(got);
    size_ += size;
    if (size > 0 && std::memchr(block, '\0', size) != nullptr) {
      const std::string text(bytes_.get(), size_);
      refuse_zero(text, text.find('\0'));
    }
    if (size_ > most_) refuse(fmt::format("got more than {} MiB, expected {}", most_ >> 20, wanted_));
    return size > 0;
  }

  void wait() const {
    pollfd what{descriptor_, POLLIN, 0};
    if (::poll(&what, 1, file_ == "-" ? -1 : kLongestSilence) == 0)
      refuse(fmt::format("is a pipe that nobody writes to, expected {}", wanted_));
  }

  [[noreturn]] void refuse(const std::string& message) const { throw UserError(Place{file_, 0, 0}, "", message); }
  [[noreturn]] void refuse_error() const { refuse(fmt::format("cannot be read: {}", std::strerror(errno))); }
  [[noreturn]] void refuse_zero(const std::string& text, std::size_t at) const {
    const auto begin = text.begin(), end = begin + static_cast<std::ptrdiff_t>(at);
    const std::size_t line_break = text.rfind('\n', at);
    const std::size_t line_begin = line_break == std::string::npos ? 0 : line_break + 1;
    throw UserError(
        Place{file_, static_cast<int>(std::count(begin, end, '\n')) + 1, static_cast<int>(at - line_begin) + 1}, "",
        fmt::format("got the byte 0x00, expected text ({})", wanted_));
  }

  const std::string& file_;
  const std::string& wanted_;
  std::size_t most_;
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0, room_ = 0;
  int descriptor_ = -1;
};

}  // namespace

std::string read_text(const std::string& file, const std::string& wanted, std::size_t most) {
  return std::string(read_block(file, wanted, most).text());
}

TextBlock read_block(const std::string& file, const std::string& wanted, std::size_t most) {
  return Reader(file, wanted, most).read();
}

}  // namespace orrery::sim
