/* The part of the CUDA driver API and of NVML that the workload calls, without NVIDIA's headers: the same program
 * runs against the stub and on a GPU machine. */
#ifndef KAI_GUARD_DRIVER_H
#define KAI_GUARD_DRIVER_H
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef void *handle;

enum { OOM = 2, LOCATION_DEVICE = 1, ALLOCATION_PINNED = 1, FORMAT_FLOAT = 0x20, RELEASE_THRESHOLD = 4 };

struct location { int kind, id; };
struct access { struct location location; int flags; };
struct allocation_prop { int kind, handles; struct location location; void *meta; unsigned char flags[8]; };
struct pool_props { int kind, handles; struct location location; void *security; size_t max; unsigned char rest[56]; };
struct alloc_node { struct pool_props pool; const struct access *access; size_t access_count, bytes; CUdeviceptr pointer; };
struct array_desc { size_t width, height; int format; unsigned channels; };
struct array3d_desc { size_t width, height, depth; int format; unsigned channels, flags; };
struct nvml_process { unsigned pid; unsigned long long used; unsigned gpu, compute; };
struct nvml_memory { unsigned long long total, free, used; };

#define CUDA_FUNCTIONS(X) \
    X(cuInit, (unsigned)) \
    X(cuDeviceGet, (CUdevice *, int)) \
    X(cuDeviceGetCount, (int *)) \
    X(cuDeviceGetUuid_v2, (unsigned char *, CUdevice)) \
    X(cuDeviceTotalMem_v2, (size_t *, CUdevice)) \
    X(cuDevicePrimaryCtxRetain, (handle *, CUdevice)) \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice)) \
    X(cuCtxSetCurrent, (handle)) \
    X(cuCtxSynchronize, (void)) \
    X(cuMemGetInfo_v2, (size_t *, size_t *)) \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
    X(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned)) \
    X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned)) \
    X(cuMemFree_v2, (CUdeviceptr)) \
    X(cuMemAllocAsync, (CUdeviceptr *, size_t, handle)) \
    X(cuMemFreeAsync, (CUdeviceptr, handle)) \
    X(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, handle, handle)) \
    X(cuDeviceGetMemPool, (handle *, CUdevice)) \
    X(cuMemPoolCreate, (handle *, const struct pool_props *)) \
    X(cuMemPoolDestroy, (handle)) \
    X(cuMemPoolSetAttribute, (handle, int, void *)) \
    X(cuMemPoolTrimTo, (handle, size_t)) \
    X(cuMemCreate, (uint64_t *, size_t, const struct allocation_prop *, unsigned long long)) \
    X(cuMemRelease, (uint64_t)) \
    X(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)) \
    X(cuMemAddressFree, (CUdeviceptr, size_t)) \
    X(cuMemMap, (CUdeviceptr, size_t, size_t, uint64_t, unsigned long long)) \
    X(cuMemUnmap, (CUdeviceptr, size_t)) \
    X(cuArrayCreate_v2, (handle *, const struct array_desc *)) \
    X(cuArray3DCreate_v2, (handle *, const struct array3d_desc *)) \
    X(cuArrayDestroy, (handle)) \
    X(cuMipmappedArrayCreate, (handle *, const struct array3d_desc *, unsigned)) \
    X(cuMipmappedArrayDestroy, (handle)) \
    X(cuGraphCreate, (handle *, unsigned)) \
    X(cuGraphAddMemAllocNode, (handle *, handle, const handle *, size_t, struct alloc_node *)) \
    X(cuGraphAddMemFreeNode, (handle *, handle, const handle *, size_t, CUdeviceptr)) \
    X(cuGraphInstantiateWithFlags, (handle *, handle, unsigned long long)) \
    X(cuGraphLaunch, (handle, handle)) \
    X(cuGraphExecDestroy, (handle)) \
    X(cuGraphDestroy, (handle)) \
    X(cuDeviceGraphMemTrim, (CUdevice)) \
    X(cuStreamCreate, (handle *, unsigned)) \
    X(cuStreamSynchronize, (handle)) \
    X(cuModuleLoadData, (handle *, const void *)) \
    X(cuModuleGetFunction, (handle *, handle, const char *)) \
    X(cuLaunchKernel, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **)) \
    X(cuGetProcAddress_v2, (const char *, void **, int, unsigned long long, int *))

#endif
