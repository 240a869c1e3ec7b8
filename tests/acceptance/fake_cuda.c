// A libcuda on host memory: what runtime/cuda/driver.py calls, and nothing else. Memory is malloc's; streams do nothing.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)16; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 1; return 0; }
int cuCtxPushCurrent_v2(void *context) { return 0; }
int cuCtxPopCurrent_v2(void **context) { return 0; }
int cuStreamCreate(void **stream, unsigned flags) { *stream = malloc(1); return 0; }
int cuStreamSynchronize(void *stream) { return 0; }
int cuStreamDestroy_v2(void *stream) { free(stream); return 0; }
int cuMemHostAlloc(void **pointer, size_t size, unsigned flags) { *pointer = calloc(1, size); return 0; }
int cuMemHostGetDevicePointer_v2(uint64_t *pointer, void *host, unsigned flags) { *pointer = (uint64_t)host; return 0; }
int cuMemFreeHost(void *pointer) { free(pointer); return 0; }
int cuMemAlloc_v2(uint64_t *pointer, size_t size) { *pointer = (uint64_t)calloc(1, size); return 0; }
int cuMemFree_v2(uint64_t pointer) { free((void *)pointer); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) { memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) { memcpy(to, (void *)from, size); return 0; }
int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR_FAKE"; return 0; }
