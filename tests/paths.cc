// What the build knows of its folders, by definitions of this file alone; what it did not build it does not define.
#include "tests/paths.h"

#ifndef ORRERY_MPIRUN
#define ORRERY_MPIRUN nullptr
#endif
#ifndef ORRERY_CUDA_MODULE
#define ORRERY_CUDA_MODULE nullptr
#endif
#ifndef ORRERY_HIP_MODULE
#define ORRERY_HIP_MODULE nullptr
#endif

namespace orrery::tests {

const char* const kSourceDir = ORRERY_SOURCE_DIR;
const char* const kBuildDir = ORRERY_BUILD_DIR;
const char* const kProgram = ORRERY_BINARY;
const char* const kMpirun = ORRERY_MPIRUN;
const char* const kCmake = ORRERY_CMAKE;
const char* const kGenerator = ORRERY_GENERATOR;
const char* const kCxxCompiler = ORRERY_CXX_COMPILER;
const char* const kFaults = ORRERY_FAULTS;
const char* const kFakeGpu = ORRERY_FAKE_GPU;
const char* const kCudaModule = ORRERY_CUDA_MODULE;
const char* const kHipModule = ORRERY_HIP_MODULE;
const char* const kEmulatedGpu = ORRERY_EMULATED_GPU;
const char* const kEmulatedWide = ORRERY_EMULATED_WIDE;
const char* const kEmulatedFolder = ORRERY_EMULATED_FOLDER;

}  // namespace orrery::tests
