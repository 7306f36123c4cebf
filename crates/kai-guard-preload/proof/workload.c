/* workload COMMAND …: a CUDA program for tests and proofs of libkai_guard.so. Prints `key value` lines.
 * Built with -DLINKED it links libcuda; otherwise WORKLOAD_RESOLVE says how functions are found:
 * dlsym (default), global (RTLD_DEFAULT), path (dlopen of the absolute path in WORKLOAD_LIBCUDA), procaddress. */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define DECLARE(name, args) CUresult name args; static CUresult (*p_##name) args;
CUDA_FUNCTIONS(DECLARE)

static CUdevice device;
static handle stream, own_pool;

static void fail(const char *what, int code) {
    printf("failed %s %d\n", what, code);
    exit(3);
}
#define CHECK(call) do { int code_ = (call); if (code_) fail(#call, code_); } while (0)

static void resolve(void) {
#ifdef LINKED
#define TAKE(name, args) p_##name = name;
    CUDA_FUNCTIONS(TAKE)
#else
    const char *how = getenv("WORKLOAD_RESOLVE") ? getenv("WORKLOAD_RESOLVE") : "dlsym";
    const char *path = strcmp(how, "path") ? "libcuda.so.1" : getenv("WORKLOAD_LIBCUDA");
    void *library = dlopen(path, RTLD_NOW | (strcmp(how, "global") ? RTLD_LOCAL : RTLD_GLOBAL));
    if (!library) fail(dlerror(), 0);
    void *scope = strcmp(how, "global") ? library : RTLD_DEFAULT;
#define FIND(name, args) \
    *(void **)&p_##name = dlsym(scope, #name); \
    if (!p_##name) fail(#name, 0);
    CUDA_FUNCTIONS(FIND)
    if (!strcmp(how, "procaddress")) {
        int status;
        CUresult (*get)(const char *, void **, int, unsigned long long, int *) = p_cuGetProcAddress_v2;
#define GET(name, args) { \
        char base[64]; snprintf(base, sizeof base, "%s", #name); \
        char *suffix = strstr(base, "_v2"); if (suffix) *suffix = 0; \
        void *found = 0; status = -1; \
        if (!get(base, &found, 12000, 0, &status) && found) { \
            if (status != 0) fail("symbol status of " #name, status); \
            *(void **)&p_##name = found; } }
        CUDA_FUNCTIONS(GET)
    }
#endif
}

static int (*nvml_processes)(handle, unsigned *, struct nvml_process *);
static int (*nvml_memory)(handle, struct nvml_memory *);
static handle nvml_device;

static void open_nvml(void) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return;
    int (*init)(void), (*by_uuid)(const char *, handle *);
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&by_uuid = dlsym(library, "nvmlDeviceGetHandleByUUID");
    unsigned char u[16];
    char text[64];
    CHECK(p_cuDeviceGetUuid_v2(u, device));
    int at = snprintf(text, sizeof text, "GPU-");
    for (int i = 0; i < 16; i++) at += snprintf(text + at, sizeof text - at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", u[i]);
    if (init() || by_uuid(text, &nvml_device)) return;
    *(void **)&nvml_processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&nvml_memory = dlsym(library, "nvmlDeviceGetMemoryInfo");
}

/* What NVML shows for this process, in bytes. */
static unsigned long long own_bytes(void) {
    static _Thread_local struct nvml_process list[256];
    unsigned count = 256;
    if (!nvml_processes || nvml_processes(nvml_device, &count, list)) return 0;
    for (unsigned i = 0; i < count; i++)
        if (list[i].pid == (unsigned)getpid()) return list[i].used;
    return 0;
}

static void start(void) {
    handle context;
    CHECK(p_cuInit(0));
    const char *ordinal = getenv("WORKLOAD_DEVICE");
    CHECK(p_cuDeviceGet(&device, ordinal ? atoi(ordinal) : 0));
    int code = p_cuDevicePrimaryCtxRetain(&context, device);
    if (code) { printf("context %d\n", code); exit(code == OOM ? 2 : 3); }
    CHECK(p_cuCtxSetCurrent(context));
    CHECK(p_cuStreamCreate(&stream, 0));
    open_nvml();
}

static void show_memory(const char *when) {
    size_t free = 0, total = 0, whole = 0;
    CHECK(p_cuMemGetInfo_v2(&free, &total));
    CHECK(p_cuDeviceTotalMem_v2(&whole, device));
    struct nvml_memory m = {0, 0, 0};
    if (nvml_memory) nvml_memory(nvml_device, &m);
    printf("%s free_mib %zu total_mib %zu device_total_mib %zu own_mib %llu nvml_total_mib %llu nvml_used_mib %llu nvml_free_mib %llu\n",
           when, free >> 20, total >> 20, whole >> 20, own_bytes() >> 20, m.total >> 20, m.used >> 20, m.free >> 20);
}

struct item { CUdeviceptr pointer; uint64_t physical; size_t bytes; handle object, graph; };

static struct pool_props pool_props(void) {
    struct pool_props props;
    memset(&props, 0, sizeof props);
    props.kind = ALLOCATION_PINNED;
    props.location.kind = LOCATION_DEVICE;
    props.location.id = device;
    return props;
}

static int graph_allocate(struct item *item, size_t bytes) {
    struct alloc_node node;
    handle alloc, free_node;
    memset(&node, 0, sizeof node);
    node.pool = pool_props();
    node.bytes = bytes;
    CHECK(p_cuGraphCreate(&item->graph, 0));
    CHECK(p_cuGraphAddMemAllocNode(&alloc, item->graph, 0, 0, &node));
    CHECK(p_cuGraphAddMemFreeNode(&free_node, item->graph, &alloc, 1, node.pointer));
    CHECK(p_cuGraphInstantiateWithFlags(&item->object, item->graph, 0));
    int code = p_cuGraphLaunch(item->object, stream);
    CHECK(p_cuStreamSynchronize(stream));
    return code;
}

/* Allocates `bytes` in one family. */
static int allocate(const char *family, struct item *item, size_t bytes) {
    size_t pitch;
    memset(item, 0, sizeof *item);
    item->bytes = bytes;
    if (!strcmp(family, "linear")) return p_cuMemAlloc_v2(&item->pointer, bytes);
    if (!strcmp(family, "pitch")) return p_cuMemAllocPitch_v2(&item->pointer, &pitch, 1000, bytes / 1024, 4);
    if (!strcmp(family, "managed")) return p_cuMemAllocManaged(&item->pointer, bytes, 1);
    if (!strcmp(family, "async")) return p_cuMemAllocAsync(&item->pointer, bytes, stream);
    if (!strcmp(family, "pool")) {
        struct pool_props props = pool_props();
        if (!own_pool) CHECK(p_cuMemPoolCreate(&own_pool, &props));
        return p_cuMemAllocFromPoolAsync(&item->pointer, bytes, own_pool, stream);
    }
    if (!strcmp(family, "vmm")) {
        struct allocation_prop prop;
        memset(&prop, 0, sizeof prop);
        prop.kind = ALLOCATION_PINNED;
        prop.location.kind = LOCATION_DEVICE;
        prop.location.id = device;
        int code = p_cuMemCreate(&item->physical, bytes, &prop, 0);
        if (code) return code;
        CHECK(p_cuMemAddressReserve(&item->pointer, bytes, 0, 0, 0));
        CHECK(p_cuMemMap(item->pointer, bytes, 0, item->physical, 0));
        return p_cuMemRelease(item->physical); /* the mapping keeps the memory */
    }
    struct array_desc flat = {bytes / 4 / 1024, 1024, FORMAT_FLOAT, 1};
    struct array3d_desc deep = {bytes / 4 / 64 / 64, 64, 64, FORMAT_FLOAT, 1, 0};
    struct array3d_desc mip = {1024, bytes / 4 / 1024, 0, FORMAT_FLOAT, 1, 0};
    if (!strcmp(family, "array")) return p_cuArrayCreate_v2(&item->object, &flat);
    if (!strcmp(family, "array3d")) return p_cuArray3DCreate_v2(&item->object, &deep);
    if (!strcmp(family, "mipmap")) return p_cuMipmappedArrayCreate(&item->object, &mip, 4);
    fail("unknown family", 0);
    return 0;
}

static void release(const char *family, struct item *item) {
    if (!strcmp(family, "async") || !strcmp(family, "pool")) CHECK(p_cuMemFreeAsync(item->pointer, stream));
    else if (!strcmp(family, "vmm")) {
        CHECK(p_cuMemUnmap(item->pointer, item->bytes));
        CHECK(p_cuMemAddressFree(item->pointer, item->bytes));
    } else if (!strcmp(family, "mipmap")) CHECK(p_cuMipmappedArrayDestroy(item->object));
    else if (!strncmp(family, "array", 5)) CHECK(p_cuArrayDestroy(item->object));
    else CHECK(p_cuMemFree_v2(item->pointer));
}

/* fill FAMILY MIB: allocates chunks until the driver says no, frees all, twice. */
static int fill(const char *family, size_t bytes) {
    static struct item items[1 << 20];
    start();
    show_memory("before");
    for (int round = 0; round < 2; round++) {
        int count = 0, code = 0;
        while (count < (1 << 20) && !(code = allocate(family, &items[count], bytes))) count++;
        CHECK(p_cuCtxSynchronize());
        printf("round %d count %d allocated_mib %llu code %d own_mib %llu\n", round, count, count * (unsigned long long)bytes >> 20, code, own_bytes() >> 20);
        if (code != OOM) return 3;
        show_memory("full");
        for (int i = 0; i < count; i++) release(family, &items[i]);
        CHECK(p_cuCtxSynchronize());
    }
    if (own_pool) CHECK(p_cuMemPoolDestroy(own_pool));
    show_memory("after");
    return 0;
}

/* graph MIB: one graph of that size, launched twice; then one twice as large. */
static int graph(size_t bytes) {
    struct item small, large;
    start();
    show_memory("before");
    int code = graph_allocate(&small, bytes);
    CHECK(p_cuGraphLaunch(small.object, stream));
    CHECK(p_cuStreamSynchronize(stream));
    printf("small code %d own_mib %llu\n", code, own_bytes() >> 20);
    show_memory("full");
    printf("large code %d\n", graph_allocate(&large, 2 * bytes));
    CHECK(p_cuGraphExecDestroy(small.object));
    CHECK(p_cuGraphExecDestroy(large.object));
    CHECK(p_cuDeviceGraphMemTrim(device));
    show_memory("after");
    return 0;
}

static atomic_int is_done;
static atomic_ullong successes, refusals;

static void *hammer_thread(void *argument) {
    static const char *families[] = {"linear", "async", "vmm", "pool", "array", "linear", "managed", "pitch"};
    unsigned seed = (unsigned)(size_t)argument * 7919 + 1, which = (unsigned)(size_t)argument;
    handle context;
    CHECK(p_cuDevicePrimaryCtxRetain(&context, device));
    CHECK(p_cuCtxSetCurrent(context));
    while (!is_done) {
        struct item items[8];
        const char *used[8];
        int count = 0;
        for (int i = 0; i < 8; i++) {
            used[count] = families[(which + rand_r(&seed)) % 8];
            int code = allocate(used[count], &items[count], (2 + 2 * (rand_r(&seed) % 64)) * MIB);
            if (code == OOM) refusals++;
            else if (code) fail(used[count], code);
            else { successes++; count++; }
        }
        while (count--) release(used[count], &items[count]);
    }
    return 0;
}

/* hammer THREADS MILLISECONDS: threads allocate and free in all families while NVML is sampled. */
static int hammer(int threads, int milliseconds) {
    pthread_t ids[64];
    struct item first;
    unsigned long long highest = 0;
    struct timespec pause = {0, 200000}, begin, now;
    start();
    CHECK(allocate("pool", &first, MIB));
    release("pool", &first);
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], 0, hammer_thread, (void *)(size_t)i);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        unsigned long long own = own_bytes();
        if (own > highest) highest = own;
        nanosleep(&pause, 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < milliseconds);
    is_done = 1;
    for (int i = 0; i < threads; i++) pthread_join(ids[i], 0);
    CHECK(p_cuCtxSynchronize());
    CHECK(p_cuMemPoolDestroy(own_pool));
    printf("hammer successes %llu refusals %llu highest_own_mib %llu\n", (unsigned long long)successes, (unsigned long long)refusals, highest >> 20);
    show_memory("after");
    return 0;
}

/* hold MIB: allocates, says so and waits for the end of standard input. */
static int hold(size_t bytes) {
    struct item item;
    char byte;
    start();
    printf("hold code %d own_mib %llu\n", allocate("linear", &item, bytes), own_bytes() >> 20);
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {}
    return 0;
}

/* fork MIB: a child of a process with memory neither inherits nor frees its charge. */
static int forked(size_t bytes) {
    struct item item;
    start();
    CHECK(allocate("linear", &item, bytes));
    show_memory("parent");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr pointer;
        int code = p_cuMemAlloc_v2(&pointer, MIB);
        printf("child code %d\n", code);
        p_cuMemFree_v2(item.pointer);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child status %d\n", status);
    show_memory("parent");
    release("linear", &item);
    show_memory("freed");
    return 0;
}

/* unknown: pointers that the library never saw, and frees by the other function. */
static int unknown(void) {
    struct item linear, async;
    start();
    printf("free of 4096 code %d\n", p_cuMemFree_v2(4096));
    CHECK(allocate("linear", &linear, 64 * MIB));
    CHECK(allocate("async", &async, 64 * MIB));
    printf("cuMemFreeAsync of linear code %d\n", p_cuMemFreeAsync(linear.pointer, stream));
    CHECK(p_cuStreamSynchronize(stream));
    printf("cuMemFree of async code %d\n", p_cuMemFree_v2(async.pointer));
    CHECK(p_cuCtxSynchronize());
    show_memory("after");
    return 0;
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static const char *kernel = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";

/* Address of a function in libcuda itself, whatever dlsym answers: the base of the object and its symbol table. Also
 * the way around the library that no library can close. */
struct search { const char *name; void *found; };

static int search_object(struct dl_phdr_info *info, size_t size, void *data) {
    struct search *search = data;
    (void)size;
    if (!strstr(info->dlpi_name, "libcuda.so")) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const Elf64_Sym *symbols = 0;
        const char *strings = 0;
        for (Elf64_Dyn *d = (Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); d->d_tag; d++) {
            if (d->d_tag == DT_SYMTAB) symbols = (const Elf64_Sym *)d->d_un.d_ptr;
            if (d->d_tag == DT_STRTAB) strings = (const char *)d->d_un.d_ptr;
        }
        /* The string table follows the symbols. */
        for (const Elf64_Sym *s = symbols; s && (const char *)s < strings; s++)
            if (s->st_shndx && !strcmp(strings + s->st_name, search->name)) search->found = (void *)(info->dlpi_addr + s->st_value);
    }
    return 1;
}

static void *driver_function(const char *name) {
    struct search search = {name, 0};
    dl_iterate_phdr(search_object, &search);
    if (!search.found) fail(name, 0);
    return search.found;
}

static int by_value(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

enum { BLOCKS = 61 };

/* Blocks of the driver's own functions and of those that a program gets take turns in one process. */
#define COMPARE(name, rounds, direct, found) do { \
    double times_[2][BLOCKS]; \
    for (int block_ = 0; block_ < BLOCKS; block_++) \
        for (int turn_ = 0; turn_ < 2; turn_++) { \
            int which_ = turn_ ^ (block_ & 1); \
            double begin_ = now_ns(); \
            for (int i_ = 0; i_ < (rounds); i_++) { if (which_) { found; } else { direct; } } \
            times_[which_][block_] = (now_ns() - begin_) / (rounds); } \
    for (int i_ = 0; i_ < 2; i_++) qsort(times_[i_], BLOCKS, sizeof(double), by_value); \
    printf("compare %s direct_ns %.1f found_ns %.1f\n", name, times_[0][BLOCKS / 2], times_[1][BLOCKS / 2]); } while (0)

#define PAIR(a, f, bytes) CHECK(a(&p, bytes)); CHECK(f(p))
#define ASYNC(a, f, bytes) CHECK(a(&p, bytes, stream)); CHECK(f(p, stream))
#define LAUNCH(l) CHECK(l(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0))

/* bench: nanoseconds per operation, with the driver's own functions and with those that dlsym gave. */
static int bench(void) {
    CUdeviceptr p;
    handle pool, module, function;
    uint64_t keep = ~0ull;
    start();
    __typeof__(p_cuMemAlloc_v2) alloc = (__typeof__(alloc))driver_function("cuMemAlloc_v2");
    __typeof__(p_cuMemFree_v2) release = (__typeof__(release))driver_function("cuMemFree_v2");
    __typeof__(p_cuMemAllocAsync) alloc_async = (__typeof__(alloc_async))driver_function("cuMemAllocAsync");
    __typeof__(p_cuMemFreeAsync) free_async = (__typeof__(free_async))driver_function("cuMemFreeAsync");
    __typeof__(p_cuLaunchKernel) launch = (__typeof__(launch))driver_function("cuLaunchKernel");
    CHECK(p_cuDeviceGetMemPool(&pool, device));
    CHECK(p_cuMemPoolSetAttribute(pool, RELEASE_THRESHOLD, &keep));
    COMPARE("pair-2MiB", 40, PAIR(alloc, release, 2 * MIB), PAIR(p_cuMemAlloc_v2, p_cuMemFree_v2, 2 * MIB));
    COMPARE("pair-64MiB", 20, PAIR(alloc, release, 64 * MIB), PAIR(p_cuMemAlloc_v2, p_cuMemFree_v2, 64 * MIB));
    COMPARE("pair-1GiB", 6, PAIR(alloc, release, 1024 * MIB), PAIR(p_cuMemAlloc_v2, p_cuMemFree_v2, 1024 * MIB));
    COMPARE("async-4KiB", 2000, ASYNC(alloc_async, free_async, 4096), ASYNC(p_cuMemAllocAsync, p_cuMemFreeAsync, 4096));
    COMPARE("async-4MiB", 2000, ASYNC(alloc_async, free_async, 4 * MIB), ASYNC(p_cuMemAllocAsync, p_cuMemFreeAsync, 4 * MIB));
    CHECK(p_cuStreamSynchronize(stream));
    if (p_cuModuleLoadData(&module, kernel) == 0) {
        CHECK(p_cuModuleGetFunction(&function, module, "nothing"));
        COMPARE("launch", 1000, LAUNCH(launch), LAUNCH(p_cuLaunchKernel));
        CHECK(p_cuStreamSynchronize(stream));
    }
    return 0;
}

/* where: the objects that functions were found in. */
static int where(void) {
    void *functions[] = {(void *)p_cuMemAlloc_v2, (void *)p_cuMemAllocAsync, (void *)p_cuGraphLaunch, (void *)p_cuMemGetInfo_v2, (void *)p_cuLaunchKernel};
    for (int i = 0; i < 5; i++) {
        Dl_info info;
        printf("where %s\n", dladdr(functions[i], &info) ? strrchr(info.dli_fname, '/') + 1 : "?");
    }
    return 0;
}

/* exec: allocates, then becomes another program that never uses CUDA, and waits. */
static int exec_other(size_t bytes) {
    struct item item;
    start();
    printf("exec code %d\n", allocate("linear", &item, bytes));
    fflush(stdout);
    execl("/bin/cat", "cat", (char *)0);
    return 3;
}

int main(int count, char **arguments) {
    const char *command = count > 1 ? arguments[1] : "";
    size_t bytes = count > 2 ? strtoull(arguments[count - 1], 0, 10) * MIB : 0;
    resolve();
    setvbuf(stdout, 0, _IOLBF, 0);
    if (!strcmp(command, "fill") && count == 4) return fill(arguments[2], bytes);
    if (!strcmp(command, "graph")) return graph(bytes);
    if (!strcmp(command, "hammer") && count == 4) return hammer(atoi(arguments[2]), atoi(arguments[3]));
    if (!strcmp(command, "hold")) return hold(bytes);
    if (!strcmp(command, "fork")) return forked(bytes);
    if (!strcmp(command, "exec")) return exec_other(bytes);
    if (!strcmp(command, "unknown")) return unknown();
    if (!strcmp(command, "bench")) return bench();
    if (!strcmp(command, "where")) return where();
    if (!strcmp(command, "info")) { start(); show_memory("info"); return 0; }
    fprintf(stderr, "usage: workload fill FAMILY MIB | graph MIB | hammer THREADS MS | hold MIB | fork MIB | exec MIB | unknown | bench | where | info\n");
    return 64;
}
