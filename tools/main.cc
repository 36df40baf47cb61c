// The program: everything is in the room's library, so that tests and benchmarks can link it.
#include "tools/commands.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // Studies plan steps of some megabytes and throw them away by the thousand. Memory that goes back to the kernel every
  // time comes back page by page, at a twelfth of their time.
  constexpr int kKept = 256 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kKept);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
#endif
  return orrery::tools::run_command_line(argc, argv);
}
