// Where the sources, the built program and what tests load lie. One object file says it for a whole test program, so
// that no other depends on the folder: a fresh clone's tests come from the compiler cache. What was not built is null.
#pragma once

namespace orrery::tests {

extern const char* const kSourceDir;
extern const char* const kBuildDir;
extern const char* const kProgram;  // `orrery`
extern const char* const kMpirun;
extern const char* const kCmake;
extern const char* const kGenerator;    // of this build
extern const char* const kCxxCompiler;  // of this build
extern const char* const kFaults;       // a library that fails calls of the system
extern const char* const kFakeGpu;      // a module for `calibrate` that needs no GPU
extern const char* const kCudaModule;
extern const char* const kHipModule;
extern const char* const kEmulatedGpu;     // the kernels, run by the host
extern const char* const kEmulatedWide;    // the same with warps of 64 lanes
extern const char* const kEmulatedFolder;  // of the emulated rocBLAS

}  // namespace orrery::tests
