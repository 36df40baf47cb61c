// What the build knows of its folders, by definitions of this file alone.
#include "tests/paths.h"

namespace orrery::tests {

const char* const kSourceDir = ORRERY_SOURCE_DIR;
const char* const kBuildDir = ORRERY_BUILD_DIR;
const char* const kProgram = ORRERY_BINARY;
const char* const kCmake = ORRERY_CMAKE;
const char* const kGenerator = ORRERY_GENERATOR;
const char* const kCxxCompiler = ORRERY_CXX_COMPILER;

#ifdef ORRERY_MPIRUN
const char* const kMpirun = ORRERY_MPIRUN;
#else
const char* const kMpirun = nullptr;
#endif
#ifdef ORRERY_FAULTS
const char* const kFaults = ORRERY_FAULTS;
const char* const kFakeGpu = ORRERY_FAKE_GPU;
const char* const kEmulatedGpu = ORRERY_EMULATED_GPU;
const char* const kEmulatedFolder = ORRERY_EMULATED_FOLDER;
#else
const char* const kFaults = nullptr;
const char* const kFakeGpu = nullptr;
const char* const kEmulatedGpu = nullptr;
const char* const kEmulatedFolder = nullptr;
#endif
#ifdef ORRERY_CUDA_MODULE
const char* const kCudaModule = ORRERY_CUDA_MODULE;
#else
const char* const kCudaModule = nullptr;
#endif
#ifdef ORRERY_HIP_MODULE
const char* const kHipModule = ORRERY_HIP_MODULE;
#else
const char* const kHipModule = nullptr;
#endif

}  // namespace orrery::tests
