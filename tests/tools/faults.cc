// A library that is loaded ahead of the system's own (LD_PRELOAD) and makes one of its calls fail, for the tests of
// what the program then leaves. The environment says which: ORRERY_FAULT=CALL:NUMBER:WHAT, from the call of that number
// on. CALL: write (with writev), fsync, rename, read or memory; WHAT: ENOSPC, EIO or EINTR (once; the call is to be
// made again), or `short` for a call that does a part of what it was asked for. Calls on descriptors below 3 are left
// alone. Left out: what the C library calls within itself.
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

enum class What { none, fail, once, part };

struct Fault {
  char call[16] = "";
  long number = 0;
  int error = 0;
  What what = What::none;
};

const Fault& fault() {
  static const Fault one = [] {
    Fault f;
    char what[16] = "";
    const char* text = std::getenv("ORRERY_FAULT");
    if (text == nullptr || std::sscanf(text, "%15[a-z]:%ld:%15[a-zA-Z]", f.call, &f.number, what) != 3) return f;
    f.what = std::strcmp(what, "short") == 0 ? What::part : std::strcmp(what, "EINTR") == 0 ? What::once : What::fail;
    f.error = std::strcmp(what, "ENOSPC") == 0 ? ENOSPC : std::strcmp(what, "EINTR") == 0 ? EINTR : EIO;
    return f;
  }();
  return one;
}

std::atomic<long> calls{0};

/// What is to become of this call.
What now(const char* call) {
  const Fault& f = fault();
  if (f.what == What::none || std::strcmp(call, f.call) != 0) return What::none;
  const long number = ++calls;
  if (number < f.number || (f.what == What::once && number > f.number)) return What::none;
  errno = f.error;
  return f.what;
}

bool fails(What what) { return what == What::fail || what == What::once; }

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int file, const void* bytes, size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  const What what = file > 2 ? now("write") : What::none;
  if (fails(what)) return -1;
  return real(file, bytes, what == What::part && size > 1 ? size / 2 : size);
}

ssize_t writev(int file, const iovec* parts, int count) {
  static const auto real = next<ssize_t (*)(int, const iovec*, int)>("writev");
  const What what = file > 2 ? now("write") : What::none;
  if (fails(what)) return -1;
  return real(file, parts, what == What::part && count > 1 ? 1 : count);
}

ssize_t read(int file, void* bytes, size_t size) {
  static const auto real = next<ssize_t (*)(int, void*, size_t)>("read");
  const What what = file > 2 ? now("read") : What::none;
  if (fails(what)) return -1;
  return real(file, bytes, what == What::part && size > 1 ? 1 + size / 1000 : size);
}

int fsync(int file) {
  static const auto real = next<int (*)(int)>("fsync");
  return fails(now("fsync")) ? -1 : real(file);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return fails(now("rename")) ? -1 : real(from, to);
}

}  // extern "C"

// As the standard library's own, but for the call that fails.
void* operator new(std::size_t size) {
  if (now("memory") == What::none) {
    if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  }
  if (const std::new_handler handler = std::get_new_handler()) handler();
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
