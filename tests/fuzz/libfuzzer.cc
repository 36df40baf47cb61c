// The same targets under clang's libFuzzer, which learns from coverage: ORRERY_FUZZ_TARGET=scenario orrery_libfuzzer
// CORPUS. Half of the changes are those of mutation.h, which know words, numbers and lines.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "sim/error.h"
#include "tests/fuzz/mutation.h"
#include "tests/fuzz/target.h"

namespace {

const orrery::fuzz::Target* chosen = nullptr;

orrery::fuzz::Mutation& mutation() {
  static orrery::fuzz::Mutation one(orrery::fuzz::inputs_of(*chosen), 1);
  return one;
}

}  // namespace

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* bytes, std::size_t size, std::size_t most);

int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("ORRERY_FUZZ_TARGET");
  try {
    chosen = &orrery::fuzz::target_of(name == nullptr ? "" : name);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "ORRERY_FUZZ_TARGET: %s\n", error.what());
    std::exit(2);
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    chosen->read(std::string(reinterpret_cast<const char*>(bytes), size));
  } catch (const orrery::sim::UserError&) {
  } catch (const std::exception& error) {
    std::fprintf(stderr, "found: %s\n", error.what());
    std::abort();
  }
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(bytes, size, most);
  const std::string text = mutation().changed(std::string(reinterpret_cast<const char*>(bytes), size));
  const std::size_t kept = std::min(text.size(), most);
  std::memcpy(bytes, text.data(), kept);
  return kept;
}

}  // extern "C"
