/* The functions of NVIDIA's management library that `kai agent reserve` calls. Numbers are those of nvml.h. */
#include "devices.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    VERSION_MISMATCH = 18,
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

static struct stub_device devices[STUB_MAX_DEVICES];
static unsigned device_count;
static int is_initialized;

int nvmlInit_v2(void) {
    const char *fault = getenv("STUB_NVML_FAULT");
    if (fault && strcmp(fault, "driver-not-loaded") == 0) return DRIVER_NOT_LOADED;
    if (fault && strcmp(fault, "no-permission") == 0) return NO_PERMISSION;
    if (fault && strcmp(fault, "version-mismatch") == 0) return VERSION_MISMATCH;
    device_count = stub_devices(devices);
    is_initialized = 1;
    return SUCCESS;
}

int nvmlShutdown(void) {
    is_initialized = 0;
    return SUCCESS;
}

static int write_text(const char *from, char *to, unsigned size) {
    if (!is_initialized) return UNINITIALIZED;
    if (strlen(from) >= size) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    return write_text("570.00.stub", version, size);
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = device_count;
    return is_initialized ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct stub_device **device) {
    if (index >= device_count) return INVALID_ARGUMENT;
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetUUID(struct stub_device *device, char *uuid, unsigned size) {
    return write_text(device->uuid, uuid, size);
}

int nvmlDeviceGetName(struct stub_device *device, char *name, unsigned size) {
    return write_text(device->name, name, size);
}

int nvmlDeviceGetMemoryInfo_v2(struct stub_device *device, struct memory_v2 *memory) {
    if (device->memory_mib == 0) return NOT_SUPPORTED;
    memory->total = memory->free = device->memory_mib << 20;
    memory->reserved = memory->used = 0;
    return SUCCESS;
}

struct process_info {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

/* Does the name of the process begin with this text? */
static int is_named(const char *pid, const char *start) {
    char path[300], name[64] = "";
    snprintf(path, sizeof path, "/proc/%s/comm", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    char *read = fgets(name, sizeof name, file);
    fclose(file);
    return read && strncmp(name, start, strlen(start)) == 0;
}

/* Processes that this one sees and whose name begins with gpu- hold 300 MiB each of every device. */
int nvmlDeviceGetComputeRunningProcesses_v3(struct stub_device *device, unsigned *count, struct process_info *processes) {
    (void)device;
    unsigned found = 0, most = processes ? *count : 0;
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !is_named(entry->d_name, "gpu-")) continue;
        if (found < most) {
            struct process_info one = {(unsigned)atoi(entry->d_name), 300ULL << 20, ~0U, ~0U};
            processes[found] = one;
        }
        found++;
    }
    if (folder) closedir(folder);
    *count = found;
    return found > most ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct stub_device *device, unsigned *count, struct process_info *processes) {
    (void)device, (void)processes;
    *count = 0;
    return SUCCESS;
}
