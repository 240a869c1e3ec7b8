// A cuDLA on host memory, by the published interface: it checks handles, registration and sizes, and its loadables negate bytes.
//
// A loadable is text: "FAKE\n", then one line a tensor: "in NAME BYTES [C H W]" or "out ...". Output byte i is the negative of
// input byte i (inputs in turn). Names come back as boards print them: with an apostrophe, cut at 80 bytes.
// FAKE_CUDLA_DEVICES is the number of cores; FAKE_CUDLA_FAIL=FUNCTION:CODE makes one call fail.
// FAKE_CUDLA_MEMORY: "device" refuses memory that was not handed to fake_device_memory, "wrong" computes nonsense over it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char name[81];
    uint64_t size, n, c, h, w;
    uint8_t format, type, category, pixel_format, pixel_mapping;
    uint32_t stride[8];
} Descriptor;

typedef struct {
    void *module;
    uint64_t *const *outputs;
    uint32_t num_outputs, num_inputs;
    uint64_t *const *inputs;
    void *wait, *signal;
} Task;

typedef struct {
    Descriptor tensors[2][64];
    uint32_t count[2];
} Module;

enum { SLOTS = 256 };
static struct { uint8_t *pointer; size_t size; int used; } memory[SLOTS];
static int devices, modules, registrations;
static int core_handles[8];
static const void *from_device[1024];
static int device_pointers;

void fake_device_memory(const void *pointer) {
    if (!pointer) device_pointers = 0;
    else if (device_pointers < 1024) from_device[device_pointers++] = pointer;
}

static int is_device_memory(const void *pointer) {
    for (int i = 0; i < device_pointers; ++i)
        if (from_device[i] == pointer) return 1;
    return 0;
}

static int memory_is(const char *kind) {
    const char *wanted = getenv("FAKE_CUDLA_MEMORY");
    return wanted && !strcmp(wanted, kind);
}

static int fails(const char *function) {
    const char *wanted = getenv("FAKE_CUDLA_FAIL");
    size_t n = strlen(function);
    return wanted && !strncmp(wanted, function, n) && wanted[n] == ':' ? atoi(wanted + n + 1) : 0;
}
#define ENTER int code = fails(__func__); if (code) return code
static int live(const void *device) { return device && *(const int *)device == 1; }

int fake_count(int kind) { return kind == 0 ? devices : kind == 1 ? modules : registrations; }

int cudlaGetVersion(uint64_t *version) { ENTER; *version = 1005000; return 0; }

int cudlaDeviceGetCount(uint64_t *count) {
    ENTER;
    const char *n = getenv("FAKE_CUDLA_DEVICES");
    *count = n ? strtoull(n, 0, 10) : 2;
    return 0;
}

int cudlaCreateDevice(uint64_t core, void **device, uint32_t flags) {
    ENTER;
    if (core >= 8 || flags != 0) return 1;
    core_handles[core] = 1;
    ++devices;
    *device = &core_handles[core];
    return 0;
}

int cudlaMemRegister(void *device, const uint64_t *pointer, size_t size, uint64_t **address, uint32_t flags) {
    ENTER;
    if (!live(device)) return 8;
    if (memory_is("device") && !is_device_memory(pointer)) return 4;
    for (int i = 0; i < SLOTS; ++i)
        if (memory[i].used && memory[i].pointer == (uint8_t *)pointer) return 11;
    for (int i = 0; i < SLOTS; ++i)
        if (!memory[i].used) {
            memory[i].pointer = (uint8_t *)pointer;
            memory[i].size = size;
            memory[i].used = 1;
            ++registrations;
            // The DLA sees memory at addresses of its own.
            *address = (uint64_t *)(uintptr_t)(0x1000 + 16 * i);
            return 0;
        }
    return 2;
}

static int slot_of(const uint64_t *address) {
    int i = (int)(((uintptr_t)address - 0x1000) / 16);
    return (uintptr_t)address >= 0x1000 && i < SLOTS && memory[i].used ? i : -1;
}

int cudlaMemUnregister(void *device, const uint64_t *address) {
    ENTER;
    int i = slot_of(address);
    if (!live(device)) return 8;
    if (i < 0) return 4;
    memory[i].used = 0;
    --registrations;
    return 0;
}

int cudlaModuleLoadFromMemory(void *device, const uint8_t *data, size_t size, void **module, uint32_t flags) {
    ENTER;
    if (!live(device)) return 8;
    if (size >= 4 && !memcmp(data, "OLD\n", 4)) return 10;
    // Cut short in a line, it is damaged.
    if (size < 5 || memcmp(data, "FAKE\n", 5) || data[size - 1] != '\n') return 7;
    char *text = strndup((const char *)data, size);
    Module *m = calloc(1, sizeof *m);
    for (char *line = strtok(text + 5, "\n"); line; line = strtok(0, "\n")) {
        char kind[4], name[256];
        unsigned long long bytes, c = 1, h = 1, w = 0;
        if (sscanf(line, "%3s %254s %llu %llu %llu %llu", kind, name, &bytes, &c, &h, &w) < 3) continue;
        strcat(name, "'");
        int out = kind[0] == 'o';
        Descriptor *d = &m->tensors[out][m->count[out]++];
        snprintf(d->name, sizeof d->name, "%s", name);
        d->size = bytes;
        d->n = 1;
        d->c = c;
        d->h = h;
        d->w = w ? w : bytes;
        d->format = 9;
        d->type = 2;
        d->stride[0] = 1;
    }
    free(text);
    ++modules;
    *module = m;
    return 0;
}

int cudlaModuleGetAttributes(void *module, int kind, void *attribute) {
    ENTER;
    Module *m = module;
    if (!m) return 12;
    if (kind == 0 || kind == 1) *(uint32_t *)attribute = m->count[kind];
    else if (kind == 2 || kind == 3) memcpy(*(Descriptor **)attribute, m->tensors[kind - 2], m->count[kind - 2] * sizeof(Descriptor));
    else return 9;
    return 0;
}

int cudlaModuleUnload(void *module, uint32_t flags) {
    ENTER;
    if (!module) return 12;
    free(module);
    --modules;
    return 0;
}

int cudlaSubmitTask(void *device, const Task *task, uint32_t count, void *stream, uint32_t flags) {
    ENTER;
    Module *m = task->module;
    if (!live(device)) return 8;
    if (!m) return 12;
    if (count != 1 || !stream || task->num_inputs != m->count[0] || task->num_outputs != m->count[1]) return 1;
    for (uint32_t k = 0; k < 2; ++k)
        for (uint32_t i = 0; i < m->count[k]; ++i) {
            int slot = slot_of((k ? task->outputs : task->inputs)[i]);
            if (slot < 0) return 4;
            if (memory[slot].size < m->tensors[k][i].size) return 1;
        }
    for (uint32_t i = 0; i < m->count[1]; ++i) {
        uint32_t from = i % m->count[0];
        const uint8_t *in = memory[slot_of(task->inputs[from])].pointer;
        uint8_t *out = memory[slot_of(task->outputs[i])].pointer;
        for (uint64_t b = 0; b < m->tensors[1][i].size; ++b) out[b] = (uint8_t)-in[b % m->tensors[0][from].size];
        if (memory_is("wrong") && !is_device_memory(out)) out[0] ^= 1;
    }
    return 0;
}

int cudlaGetLastError(void *device) { ENTER; return live(device) ? 0 : 8; }

int cudlaDestroyDevice(void *device) {
    ENTER;
    if (!live(device)) return 8;
    *(int *)device = 0;
    --devices;
    return 0;
}
