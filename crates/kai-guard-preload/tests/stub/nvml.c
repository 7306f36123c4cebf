/* A stub of NVML that knows the devices and the process of the stub of libcuda. STUB_NVML_SEES_NO_PID=1: the process
 * list is empty, as with drivers that know no PID namespaces. */
#define _GNU_SOURCE
#include "../../proof/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long long process_bytes(handle device) {
    static unsigned long long (*ask)(int);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (cuda && !ask) *(void **)&ask = dlsym(cuda, "stub_process_bytes");
    return ask ? ask((int)(size_t)device - 1) : 0;
}

int nvmlInit_v2(void) { return getenv("STUB_NVML_FAULT") ? 9 : 0; }

int nvmlDeviceGetUUID(handle device, char *text, unsigned size) {
    const char *digits = getenv("STUB_CUDA_DEVICES");
    if (!digits || size < 41) return 7;
    digits += 33 * ((size_t)device - 1);
    snprintf(text, size, "GPU-%.8s-%.4s-%.4s-%.4s-%.12s", digits, digits + 8, digits + 12, digits + 16, digits + 20);
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, handle *device) {
    const char *digits = getenv("STUB_CUDA_DEVICES");
    char text[48];
    for (size_t i = 1; digits && i <= (strlen(digits) + 1) / 33; i++)
        if (!nvmlDeviceGetUUID((handle)i, text, sizeof text) && !strcmp(text, uuid)) { *device = (handle)i; return 0; }
    return 6;
}

int nvmlDeviceGetMemoryInfo(handle device, struct nvml_memory *memory) {
    const char *mib = getenv("STUB_CUDA_MIB");
    memory->total = (mib ? strtoull(mib, 0, 10) : 16384) << 20;
    memory->used = process_bytes(device);
    memory->free = memory->total - memory->used;
    return 0;
}

/* Entry 0 is a process of another tenant. */
int nvmlDeviceGetComputeRunningProcesses_v3(handle device, unsigned *count, struct nvml_process *list) {
    unsigned long long used = process_bytes(device);
    if (*count < 2) { *count = 2; return 7; }
    list[0] = (struct nvml_process){999999, 1 << 30, ~0u, ~0u};
    *count = 1;
    if (used && !getenv("STUB_NVML_SEES_NO_PID")) list[(*count)++] = (struct nvml_process){(unsigned)getpid(), used, ~0u, ~0u};
    return 0;
}
