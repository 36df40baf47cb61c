// The engine as a WebAssembly module: three functions that the page's worker and node call. The module has no files but
// those that were embedded when it was built, and no clock that its answers depend on.
#include <cstdlib>
#include <string>

#include "tools/whatif/engine.h"

namespace {

orrery::tools::WhatIfEngine& engine() {
  static orrery::tools::WhatIfEngine one(orrery::tools::WhatIfEngine::Names::files);  // those embedded
  return one;
}

std::string& last_answer() {
  static std::string text;
  return text;
}

}  // namespace

extern "C" {

/// Room for a request of `size` bytes, which the caller fills.
char* orrery_room(std::size_t size) { return static_cast<char*>(std::malloc(size)); }

/// Answers the request in UTF-8 that lies at `request`, `size` bytes of it, and frees it. Returns the answer's size.
std::size_t orrery_answer(char* request, std::size_t size) {
  const std::string text(request, size);
  std::free(request);
  last_answer() = engine().answer(text);
  return last_answer().size();
}

/// Where the last answer lies, until the next.
const char* orrery_text() { return last_answer().data(); }
}
