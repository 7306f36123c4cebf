/* A stub of libcuda: fake pointers, real bookkeeping. Refuses what the device does not have, frees only what it gave.
 * STUB_CUDA_DEVICES: UUIDs (32 hexadecimal digits), separated by commas; every device has STUB_CUDA_MIB MiB.
 * STUB_CUDA_SHARED: a file in which processes count what they hold together; without it every process has the devices for
 * itself. */
#define _GNU_SOURCE
#include "../../proof/driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define STEP (32 * MIB)
#define CONTEXT (500 * MIB)
enum { INVALID_VALUE = 1, NOT_FOUND = 500, INVALID_CONTEXT = 201, DEVICES = 4, BLOCKS = 1 << 16 };
enum kind { NONE, LINEAR, ASYNC, PHYSICAL, ARRAY };

struct pool { int device, is_destroyed; uint64_t used, reserved, threshold; };
struct block { enum kind kind; uint64_t pointer, bytes; int device, references; struct pool *pool; int is_managed; };
struct node { int kind; struct alloc_node params; struct node *next; };
struct graph { struct node *nodes; };

CUresult cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block blocks[BLOCKS];
static struct { uint64_t pointer; struct block *block; } mappings[BLOCKS];
static struct pool pools[DEVICES], *current[DEVICES], *all_pools[256];
static int pool_count, contexts[DEVICES], is_initialized;
static uint64_t used[DEVICES], managed[DEVICES], graph_reserved[DEVICES], next = 1ull << 32;
static _Thread_local int current_device = -1;

static uint64_t total(void) {
    const char *text = getenv("STUB_CUDA_MIB");
    return (text ? strtoull(text, 0, 10) : 16384) * MIB;
}

/* Bytes of this process on a device, for the stub of NVML. */
unsigned long long stub_process_bytes(int device);
unsigned long long stub_process_bytes(int device) { return used[device] - managed[device]; }

static uint64_t *shared, published[DEVICES];

/* Bytes of other processes on a device. Tells them what this one holds. */
static uint64_t others(int device) {
    const char *path = getenv("STUB_CUDA_SHARED");
    if (!path) return 0;
    if (!shared) {
        int file = open(path, O_RDWR | O_CREAT, 0600);
        if (file < 0 || ftruncate(file, sizeof published)) abort();
        shared = mmap(0, sizeof published, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared == MAP_FAILED) abort();
        close(file);
    }
    uint64_t all = __atomic_add_fetch(&shared[device], used[device] - published[device], __ATOMIC_SEQ_CST);
    published[device] = used[device];
    return all - used[device];
}

static __attribute__((destructor)) void leave(void) {
    for (int device = 0; shared && device < DEVICES; device++)
        __atomic_sub_fetch(&shared[device], published[device], __ATOMIC_SEQ_CST);
}

static int take(int device, uint64_t bytes) {
    if (used[device] + bytes + others(device) > total()) return OOM;
    used[device] += bytes;
    others(device);
    return 0;
}

static struct block *add(enum kind kind, int device, uint64_t bytes) {
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].kind == NONE) {
            next += (bytes + 2 * MIB) & ~(2 * MIB - 1);
            blocks[i] = (struct block){kind, next, bytes, device, 1, 0, 0};
            return &blocks[i];
        }
    return 0;
}

static struct block *find(enum kind kind, uint64_t pointer) {
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].kind == kind && blocks[i].pointer == pointer) return &blocks[i];
    return 0;
}

#define LOCKED(body) do { pthread_mutex_lock(&lock); int code_ = (body); pthread_mutex_unlock(&lock); return code_; } while (0)

CUresult cuInit(unsigned flags) {
    (void)flags;
    is_initialized = 1;
    for (int i = 0; i < DEVICES; i++) { pools[i].device = i; if (!current[i]) current[i] = &pools[i]; }
    return 0;
}

CUresult cuDriverGetVersion(int *version) { *version = 13000; return 0; }

CUresult cuDeviceGetCount(int *count) {
    const char *text = getenv("STUB_CUDA_DEVICES");
    *count = text ? 1 : 0;
    for (; text && *text; text++) *count += *text == ',';
    return is_initialized ? 0 : 3;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    int count;
    if (cuDeviceGetCount(&count) || ordinal >= count) return 101;
    *device = ordinal;
    return 0;
}

CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) {
    const char *text = getenv("STUB_CUDA_DEVICES");
    if (!is_initialized || !text) return 3;
    text += 33 * device;
    for (int i = 0; i < 16; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        uuid[i] = (unsigned char)strtoul(digits, 0, 16);
    }
    return 0;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) { (void)attribute; (void)device; *value = 0; return 0; }
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { (void)device; *bytes = total(); return 0; }
CUresult cuCtxGetDevice(CUdevice *device) { *device = current_device; return current_device < 0 ? INVALID_CONTEXT : 0; }
CUresult cuCtxSetCurrent(handle context) { current_device = (int)(size_t)context - 1; return 0; }
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) { *flags = 0; *active = contexts[device] > 0; return 0; }

static int retain(CUdevice device) {
    if (contexts[device] == 0 && take(device, CONTEXT)) return OOM;
    contexts[device]++;
    return 0;
}
CUresult cuDevicePrimaryCtxRetain(handle *context, CUdevice device) {
    if (!is_initialized) return 3;
    *context = (handle)(size_t)(device + 1);
    LOCKED(retain(device));
}
static int release_context(CUdevice device) {
    if (contexts[device] == 0) return INVALID_CONTEXT;
    if (--contexts[device] == 0) {
        used[device] = managed[device] = 0;
        for (int i = 0; i < BLOCKS; i++) if (blocks[i].device == device) blocks[i].kind = NONE;
        memset(&pools[device], 0, sizeof pools[device]);
        pools[device].device = device;
    }
    return 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { LOCKED(release_context(device)); }
CUresult cuMemGetInfo_v2(size_t *free, size_t *all) {
    if (current_device < 0) return INVALID_CONTEXT;
    *all = total();
    *free = total() - used[current_device] - others(current_device);
    return 0;
}

static int allocate(enum kind kind, uint64_t *pointer, uint64_t bytes, int device) {
    uint64_t rounded = bytes > MIB ? (bytes + 2 * MIB - 1) & ~(2 * MIB - 1) : bytes;
    if (device < 0) return INVALID_CONTEXT;
    if (bytes == 0) return INVALID_VALUE;
    if (take(device, rounded)) return OOM;
    *pointer = add(kind, device, rounded)->pointer;
    return 0;
}
static int drop(struct block *block) {
    if (!block) return INVALID_VALUE;
    if (block->pool) {
        block->pool->used -= block->bytes;
        if (block->pool->is_destroyed && block->pool->used == 0) { used[block->device] -= block->pool->reserved; block->pool->reserved = 0; }
    } else used[block->device] -= block->bytes;
    if (block->is_managed) managed[block->device] -= block->bytes;
    block->kind = NONE;
    return 0;
}
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) { LOCKED(allocate(LINEAR, pointer, bytes, current_device)); }
static int allocate_managed(CUdeviceptr *pointer, uint64_t bytes) {
    int code = allocate(LINEAR, pointer, bytes, current_device);
    if (code) return code;
    struct block *block = find(LINEAR, *pointer);
    block->is_managed = 1;
    managed[current_device] += block->bytes;
    return 0;
}
CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) { (void)flags; LOCKED(allocate_managed(pointer, bytes)); }
CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
    (void)element;
    *pitch = (width + 511) & ~511ull;
    LOCKED(allocate(LINEAR, pointer, *pitch * height, current_device));
}
static struct block *linear_or_async(CUdeviceptr pointer) {
    struct block *block = find(LINEAR, pointer);
    return block ? block : find(ASYNC, pointer);
}
static int trim_all(void) {
    for (int i = 0; i < DEVICES + pool_count; i++) {
        struct pool *pool = i < DEVICES ? &pools[i] : all_pools[i - DEVICES];
        uint64_t keep = pool->used > pool->threshold ? pool->used : pool->threshold;
        if (pool->reserved > keep) { used[pool->device] -= pool->reserved - keep; pool->reserved = keep; }
    }
    return 0;
}
static int free_and_wait(CUdeviceptr pointer) { int code = drop(linear_or_async(pointer)); trim_all(); return code; }
CUresult cuMemFree_v2(CUdeviceptr pointer) { LOCKED(free_and_wait(pointer)); }
CUresult cuMemFreeAsync(CUdeviceptr pointer, handle stream) { (void)stream; LOCKED(drop(linear_or_async(pointer))); }

static int from_pool(CUdeviceptr *pointer, uint64_t bytes, struct pool *pool) {
    if (pool->reserved - pool->used < bytes) {
        uint64_t growth = (bytes + STEP - 1) / STEP * STEP;
        if (take(pool->device, growth)) return OOM;
        pool->reserved += growth;
    }
    struct block *block = add(ASYNC, pool->device, bytes);
    block->pool = pool;
    pool->used += bytes;
    *pointer = block->pointer;
    return 0;
}
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, handle stream) { (void)stream; LOCKED(from_pool(pointer, bytes, current[current_device])); }
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, handle stream) { return cuMemAllocAsync(pointer, bytes, stream); }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, handle pool, handle stream) { (void)stream; LOCKED(from_pool(pointer, bytes, pool)); }
CUresult cuDeviceGetMemPool(handle *pool, CUdevice device) { *pool = current[device]; return 0; }
CUresult cuMemPoolCreate(handle *pool, const struct pool_props *props) {
    struct pool *made = calloc(1, sizeof *made);
    made->device = props->location.id;
    all_pools[pool_count++] = made;
    *pool = made;
    return 0;
}
static int destroy_pool(struct pool *pool) {
    pool->is_destroyed = 1;
    if (pool->used == 0) { used[pool->device] -= pool->reserved; pool->reserved = 0; }
    return 0;
}
CUresult cuMemPoolDestroy(handle pool) { LOCKED(destroy_pool(pool)); }
CUresult cuMemPoolSetAttribute(handle pool, int attribute, void *value) { if (attribute == RELEASE_THRESHOLD) ((struct pool *)pool)->threshold = *(uint64_t *)value; return 0; }
CUresult cuMemPoolGetAttribute(handle pool, int attribute, void *value) {
    struct pool *p = pool;
    if (p->is_destroyed) abort();
    *(uint64_t *)value = attribute == 5 ? p->reserved : attribute == 7 ? p->used : 0;
    return 0;
}
static int trim(struct pool *pool, uint64_t keep) {
    if (keep < pool->used) keep = pool->used;
    if (pool->reserved > keep) { used[pool->device] -= pool->reserved - keep; pool->reserved = keep; }
    return 0;
}
CUresult cuMemPoolTrimTo(handle pool, size_t keep) { LOCKED(trim(pool, keep)); }
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer) {
    struct block *block = find(ASYNC, pointer);
    if (!block) return INVALID_VALUE;
    if (attribute == 17) *(handle *)value = block->pool;
    else *(size_t *)value = block->bytes;
    return 0;
}
CUresult cuCtxSynchronize(void) { LOCKED(trim_all()); }
CUresult cuStreamSynchronize(handle stream) { (void)stream; LOCKED(trim_all()); }
CUresult cuStreamCreate(handle *stream, unsigned flags) { (void)flags; *stream = stream; return 0; }

CUresult cuMemCreate(uint64_t *physical, size_t bytes, const struct allocation_prop *prop, unsigned long long flags) { (void)flags; LOCKED(allocate(PHYSICAL, physical, bytes, prop->location.id)); }
static int unreference(struct block *block) { if (!block) return INVALID_VALUE; return --block->references ? 0 : drop(block); }
CUresult cuMemRelease(uint64_t physical) { LOCKED(unreference(find(PHYSICAL, physical))); }
CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags) {
    (void)alignment; (void)wish; (void)flags;
    pthread_mutex_lock(&lock);
    next += bytes + 2 * MIB;
    *pointer = next;
    pthread_mutex_unlock(&lock);
    return 0;
}
CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) { (void)pointer; (void)bytes; return 0; }
static int map(CUdeviceptr pointer, uint64_t physical) {
    struct block *block = find(PHYSICAL, physical);
    for (int i = 0; block && i < BLOCKS; i++)
        if (!mappings[i].block) { mappings[i].pointer = pointer; mappings[i].block = block; block->references++; return 0; }
    return INVALID_VALUE;
}
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, uint64_t physical, unsigned long long flags) { (void)bytes; (void)offset; (void)flags; LOCKED(map(pointer, physical)); }
static int unmap(CUdeviceptr pointer) {
    for (int i = 0; i < BLOCKS; i++)
        if (mappings[i].block && mappings[i].pointer == pointer) { struct block *block = mappings[i].block; mappings[i].block = 0; return unreference(block); }
    return INVALID_VALUE;
}
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) { (void)bytes; LOCKED(unmap(pointer)); }

CUresult cuArrayCreate_v2(handle *array, const struct array_desc *d) { LOCKED(allocate(ARRAY, (uint64_t *)array, d->width * (d->height ? d->height : 1) * 4 * d->channels, current_device)); }
CUresult cuArray3DCreate_v2(handle *array, const struct array3d_desc *d) { LOCKED(allocate(ARRAY, (uint64_t *)array, d->width * (d->height ? d->height : 1) * (d->depth ? d->depth : 1) * 4 * d->channels, current_device)); }
CUresult cuMipmappedArrayCreate(handle *array, const struct array3d_desc *d, unsigned levels) {
    uint64_t bytes = 0, width = d->width, height = d->height ? d->height : 1;
    for (unsigned i = 0; i < levels; i++) { bytes += width * height * 4; width = width > 1 ? width / 2 : 1; height = height > 1 ? height / 2 : 1; }
    LOCKED(allocate(ARRAY, (uint64_t *)array, bytes, current_device));
}
CUresult cuArrayDestroy(handle array) { LOCKED(drop(find(ARRAY, (uint64_t)array))); }
CUresult cuMipmappedArrayDestroy(handle array) { return cuArrayDestroy(array); }

CUresult cuGraphCreate(handle *graph, unsigned flags) { (void)flags; *graph = calloc(1, sizeof(struct graph)); return 0; }
static void add_node(struct graph *graph, handle *out, int kind, struct alloc_node *params) {
    struct node *node = calloc(1, sizeof *node);
    node->kind = kind;
    if (params) { params->pointer = 0x1000; node->params = *params; }
    node->next = graph->nodes;
    graph->nodes = node;
    *out = node;
}
CUresult cuGraphAddMemAllocNode(handle *node, handle graph, const handle *after, size_t count, struct alloc_node *params) { (void)after; (void)count; add_node(graph, node, 10, params); return 0; }
CUresult cuGraphAddMemFreeNode(handle *node, handle graph, const handle *after, size_t count, CUdeviceptr pointer) { (void)after; (void)count; (void)pointer; add_node(graph, node, 11, 0); return 0; }
CUresult cuGraphGetNodes(handle graph, handle *nodes, size_t *count) {
    size_t n = 0;
    for (struct node *node = ((struct graph *)graph)->nodes; node; node = node->next) { if (nodes && n < *count) nodes[n] = node; n++; }
    *count = n;
    return 0;
}
CUresult cuGraphNodeGetType(handle node, int *kind) { *kind = ((struct node *)node)->kind; return 0; }
CUresult cuGraphMemAllocNodeGetParams(handle node, struct alloc_node *params) { *params = ((struct node *)node)->params; return 0; }
CUresult cuGraphInstantiateWithFlags(handle *exec, handle graph, unsigned long long flags) { (void)flags; *exec = graph; return 0; }
static int launch(struct graph *graph) {
    for (struct node *node = graph->nodes; node; node = node->next) {
        int device = node->params.pool.location.id;
        uint64_t needed = (node->params.bytes + STEP - 1) / STEP * STEP;
        if (node->kind != 10 || graph_reserved[device] >= needed) continue;
        if (take(device, needed - graph_reserved[device])) return OOM;
        graph_reserved[device] = needed;
    }
    return 0;
}
CUresult cuGraphLaunch(handle exec, handle stream) { (void)stream; LOCKED(launch(exec)); }
CUresult cuGraphExecDestroy(handle exec) { (void)exec; return 0; }
CUresult cuGraphDestroy(handle graph) { (void)graph; return 0; }
CUresult cuDeviceGraphMemTrim(CUdevice device) { used[device] -= graph_reserved[device]; graph_reserved[device] = 0; return 0; }
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value) { *(uint64_t *)value = attribute == 2 ? graph_reserved[device] : 0; return 0; }
CUresult cuModuleLoadData(handle *module, const void *image) { (void)image; *module = module; return 0; }
CUresult cuModuleGetFunction(handle *function, handle module, const char *name) { (void)module; (void)name; *function = function; return 0; }
CUresult cuLaunchKernel(handle f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, handle s, void **p, void **x) { (void)f; (void)a; (void)b; (void)c; (void)d; (void)e; (void)g; (void)h; (void)s; (void)p; (void)x; return 0; }

/* Newest version first, then the plain name, as the driver decides for callers of 12.0. A table, because `dlsym` of the
 * process is replaced. */
CUresult cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status) {
    static const struct { const char *name; void *function; } table[] = {
#define ENTRY(name, args) {#name, (void *)name},
        CUDA_FUNCTIONS(ENTRY)
    };
    (void)version; (void)flags;
    *function = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t length = strlen(name);
        if (!strncmp(table[i].name, name, length) && (!table[i].name[length] || !strcmp(table[i].name + length, "_v2")))
            *function = table[i].function;
    }
    if (status) *status = *function ? 0 : 1;
    return *function ? 0 : NOT_FOUND;
}
