// One spelling for the CUDA and the HIP runtime: gpuMalloc is cudaMalloc or hipMalloc. Only what the module calls.
#pragma once

#if defined(ORRERY_HIP)
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

#if defined(ORRERY_HIP)
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
