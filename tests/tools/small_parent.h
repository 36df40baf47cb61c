// Runs the program as children of a process that stays as small as it was when the first was asked for. A test process
// under sanitizers grows to hundreds of megabytes whose pages each child of its own would have to share and then copy,
// which takes six times as long as what the child does.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "tools/commands/commands.h"

extern char** environ;

namespace orrery::tests {

/// What a child is asked to be: its arguments (without the program's name), the files that take its standard output and
/// errors, and its environment.
struct Errand {
  std::vector<std::string> arguments;
  std::string out, err;
};

class SmallParent {
 public:
  /// The process of this name, made by the first call; it ends with the one that asked for it.
  static SmallParent& get() {
    static SmallParent parent;
    return parent;
  }

  /// The child's status as waitpid gives it; -1 when there can be no child.
  int run(const Errand& errand) {
    std::string message;
    add(message, errand.out);
    add(message, errand.err);
    for (char** entry = environ; *entry != nullptr; ++entry) add(message, *entry);
    message += '\1';  // no variable begins with it
    message += '\0';
    for (const std::string& argument : errand.arguments) add(message, argument);
    const std::uint64_t size = message.size();
    int status = -1;
    if (!put(&size, sizeof size) || !put(message.data(), size) || !take(&status, sizeof status)) return -1;
    return status;
  }

 private:
  SmallParent() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    std::fflush(nullptr);  // what is printed later by a child must not begin with what this process has printed
    std::cout.flush();
    const pid_t child = ::fork();
    link_ = ends[child == 0];
    ::close(ends[child != 0]);
    if (child == 0) serve();
  }
  ~SmallParent() = default;  // the other end is closed with this process

  [[noreturn]] void serve() {
    for (const int number : {SIGINT, SIGTERM, SIGABRT, SIGSEGV, SIGFPE, SIGILL}) std::signal(number, SIG_DFL);
    std::uint64_t size = 0;
    while (take(&size, sizeof size)) {
      std::string message(size, '\0');
      if (!take(message.data(), size)) break;
      const pid_t child = ::fork();
      if (child == 0) be_program(message);
      int status = -1;
      if (child > 0) ::waitpid(child, &status, 0);
      if (!put(&status, sizeof status)) break;
    }
    ::_exit(0);
  }

  [[noreturn]] void be_program(std::string& message) {
    ::close(link_);
    std::vector<char*> words;
    for (std::size_t at = 0; at < message.size(); at = message.find('\0', at) + 1) words.push_back(&message[at]);
    for (const int descriptor : {1, 2}) {
      const int opened = ::open(words[static_cast<std::size_t>(descriptor - 1)], O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(opened, descriptor);
      ::close(opened);
    }
    ::clearenv();
    std::size_t at = 2;
    for (; *words[at] != '\1'; ++at) ::putenv(words[at]);
    char name[] = "orrery";
    std::vector<char*> arguments{name};
    arguments.insert(arguments.end(), words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
    arguments.push_back(nullptr);
    const int status = tools::run_command_line(static_cast<int>(arguments.size()) - 1, arguments.data());
    std::cout.flush();
    std::fflush(nullptr);
    ::_exit(status);  // at an orderly exit sanitizers take back every global, page by page: four times what programs do
  }

  static void add(std::string& message, const std::string& text) { message.append(text.c_str(), text.size() + 1); }
  bool put(const void* data, std::size_t size) const {
    const char* from = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t done = ::send(link_, from, size, MSG_NOSIGNAL);
      if (done <= 0) return false;
      from += done;
      size -= static_cast<std::size_t>(done);
    }
    return true;
  }
  bool take(void* data, std::size_t size) const {
    char* to = static_cast<char*>(data);
    while (size > 0) {
      const ssize_t done = ::recv(link_, to, size, 0);
      if (done <= 0) return false;
      to += done;
      size -= static_cast<std::size_t>(done);
    }
    return true;
  }

  int link_ = -1;
};

}  // namespace orrery::tests
