// Opens pages in a headless Chromium, where one is installed, and reads what they say of themselves.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/skipped.h"
#include "tests/tools/program.h"

namespace orrery::tests {

/// The browser's path; empty, with a line that says so, where there is none.
inline std::string find_browser() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const fs::path program = fs::path(folder) / name;
      std::error_code ignored;
      if (fs::is_regular_file(program, ignored)) return program.string();
    }
  }
  skipped("no Chromium to open reports in; install the package chromium");
  return {};
}

struct Canvas {
  std::string label;
  long drawn = 0;  // pixels
};

/// What a report said in its attributes once it was drawn.
struct OpenedPage {
  bool ready = false;
  std::string errors;    // JSON: "[]" without any
  std::string overflow;  // pixels by which the page is wider than the window
  std::string said;      // by a script of the test, in data-said
  std::vector<Canvas> canvases;
};

inline std::string attribute(const std::string& tag, const std::string& name) {
  const std::string before = " " + name + "=\"";
  const std::size_t at = tag.find(before);
  if (at == std::string::npos) return "";
  const std::size_t from = at + before.size();
  return tag.substr(from, tag.find('"', from) - from);
}

/// Opens `file`; `hash`: what the address ends in, beside what a page needs to count its pixels.
inline OpenedPage open_page(const std::string& browser, const std::string& file, int width,
                            const std::string& hash = "") {
  const Folder folder;
  const std::string out = folder.file("dom"), profile = "--user-data-dir=" + folder.file("profile");
  std::vector<std::string> arguments{browser,
                                     "--headless",
                                     "--no-sandbox",
                                     "--disable-gpu",
                                     "--disable-quic",
                                     "--no-first-run",
                                     "--disable-background-networking",
                                     "--disable-component-update",
                                     "--disable-sync",
                                     "--disable-dev-shm-usage",
                                     profile,
                                     "--virtual-time-budget=20000",
                                     "--window-size=" + std::to_string(width) + ",1000",
                                     "--dump-dom",
                                     "file://" + file + "#check" + hash};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  if (posix_spawn(&child, browser.c_str(), &actions, nullptr, argv.data(), environ) == 0) {
    int status = 0;
    ::waitpid(child, &status, 0);
  }
  posix_spawn_file_actions_destroy(&actions);
  const std::string dom = read_file(out);
  OpenedPage page;
  const std::string root = dom.substr(0, std::min(dom.size(), dom.find('>', dom.find("<html"))));
  page.ready = attribute(root, "data-ready") == "yes";
  page.errors = attribute(root, "data-errors");
  page.overflow = attribute(root, "data-overflow");
  page.said = attribute(root, "data-said");
  for (std::size_t at = dom.find("<canvas"); at != std::string::npos; at = dom.find("<canvas", at + 1)) {
    const std::string tag = dom.substr(at, dom.find('>', at) - at);
    page.canvases.push_back({attribute(tag, "aria-label"), std::atol(attribute(tag, "data-drawn").c_str())});
  }
  return page;
}

}  // namespace orrery::tests
