// One spelling for the CUDA and the HIP runtime: gpuMalloc is cudaMalloc or hipMalloc. Only what the module calls. A
// third runtime, the host pretending to be a device, lets the tests run the kernels themselves.
#pragma once

#if defined(ORRERY_EMULATED)
#include "calibration/kernels/emulated.h"
#define ORRERY_GPU(name) emulated##name
#elif defined(ORRERY_HIP)
#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#else
#include <hip/hip_runtime_api.h>
#endif
#define ORRERY_GPU(name) hip##name
#else
#if defined(__CUDACC__)
#include <cuda_runtime.h>
#else
#include <cuda_runtime_api.h>
#endif
#define ORRERY_GPU(name) cuda##name
#endif

namespace orrery::calibration::gpu {

using Stream = ORRERY_GPU(Stream_t);
using Event = ORRERY_GPU(Event_t);
using Graph = ORRERY_GPU(Graph_t);
using GraphExec = ORRERY_GPU(GraphExec_t);
using ErrorCode = ORRERY_GPU(Error_t);

}  // namespace orrery::calibration::gpu

#define gpuSuccess ORRERY_GPU(Success)
#define gpuGetErrorString ORRERY_GPU(GetErrorString)
#define gpuGetLastError ORRERY_GPU(GetLastError)
#define gpuGetDeviceCount ORRERY_GPU(GetDeviceCount)
#define gpuSetDevice ORRERY_GPU(SetDevice)
#define gpuDeviceSynchronize ORRERY_GPU(DeviceSynchronize)
#define gpuDriverGetVersion ORRERY_GPU(DriverGetVersion)
#define gpuRuntimeGetVersion ORRERY_GPU(RuntimeGetVersion)
#define gpuDeviceGetAttribute ORRERY_GPU(DeviceGetAttribute)
#define gpuDeviceGetPCIBusId ORRERY_GPU(DeviceGetPCIBusId)
#define gpuMemGetInfo ORRERY_GPU(MemGetInfo)
#define gpuMalloc ORRERY_GPU(Malloc)
#define gpuFree ORRERY_GPU(Free)
#define gpuMemcpy ORRERY_GPU(Memcpy)
#define gpuMemcpyAsync ORRERY_GPU(MemcpyAsync)
#define gpuMemcpy2D ORRERY_GPU(Memcpy2D)
#define gpuMemset ORRERY_GPU(Memset)
#define gpuMemsetAsync ORRERY_GPU(MemsetAsync)
#define gpuMemcpyHostToDevice ORRERY_GPU(MemcpyHostToDevice)
#define gpuMemcpyDeviceToHost ORRERY_GPU(MemcpyDeviceToHost)
#define gpuMemcpyDeviceToDevice ORRERY_GPU(MemcpyDeviceToDevice)
#define gpuMemcpyDefault ORRERY_GPU(MemcpyDefault)
#define gpuStreamCreateWithFlags ORRERY_GPU(StreamCreateWithFlags)
#define gpuStreamNonBlocking ORRERY_GPU(StreamNonBlocking)
#define gpuStreamDestroy ORRERY_GPU(StreamDestroy)
#define gpuStreamSynchronize ORRERY_GPU(StreamSynchronize)
#define gpuStreamWaitEvent ORRERY_GPU(StreamWaitEvent)
#define gpuStreamBeginCapture ORRERY_GPU(StreamBeginCapture)
#define gpuStreamEndCapture ORRERY_GPU(StreamEndCapture)
#define gpuStreamCaptureModeThreadLocal ORRERY_GPU(StreamCaptureModeThreadLocal)
#define gpuGraphLaunch ORRERY_GPU(GraphLaunch)
#define gpuGraphDestroy ORRERY_GPU(GraphDestroy)
#define gpuGraphExecDestroy ORRERY_GPU(GraphExecDestroy)
#define gpuEventCreate ORRERY_GPU(EventCreate)
#define gpuEventDestroy ORRERY_GPU(EventDestroy)
#define gpuEventRecord ORRERY_GPU(EventRecord)
#define gpuEventSynchronize ORRERY_GPU(EventSynchronize)
#define gpuEventElapsedTime ORRERY_GPU(EventElapsedTime)

/// Starts a kernel: its grid and its block in parentheses, then its arguments.
#if defined(ORRERY_EMULATED)
#define ORRERY_LAUNCH(kernel, grid, threads, stream, ...) \
  (static_cast<void>(stream), ::emulated::launch(grid, threads, [=] { kernel(__VA_ARGS__); }))
#else
#define ORRERY_LAUNCH(kernel, grid, threads, stream, ...) kernel<<<grid, threads, 0, stream>>>(__VA_ARGS__)
#endif

#if defined(ORRERY_EMULATED)
#define gpuErrorOutOfMemory emulatedErrorOutOfMemory
#define gpuErrorNoDevice emulatedErrorNoDevice
#define gpuErrorInsufficientDriver emulatedErrorNoDevice
#define gpuHostAlloc emulatedMalloc
#define gpuHostFree emulatedFree
#elif defined(ORRERY_HIP)
#define gpuErrorOutOfMemory hipErrorOutOfMemory
#define gpuErrorNoDevice hipErrorNoDevice
#define gpuErrorInsufficientDriver hipErrorInsufficientDriver
#define gpuHostAlloc(pointer, bytes) hipHostMalloc(pointer, bytes, hipHostMallocDefault)
#define gpuHostFree hipHostFree
#else
#define gpuErrorOutOfMemory cudaErrorMemoryAllocation
#define gpuErrorNoDevice cudaErrorNoDevice
#define gpuErrorInsufficientDriver cudaErrorInsufficientDriver
#define gpuHostAlloc(pointer, bytes) cudaHostAlloc(pointer, bytes, cudaHostAllocDefault)
#define gpuHostFree cudaFreeHost
#endif
