// A CUDA driver of one or more devices without a GPU: it keeps count of memory and insists on the driver's rules that
// ckptplan must follow (cuInit first, a context current on the calling thread). Macros make variants of it.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifndef DEVICES
#define DEVICES 2
#endif
#ifndef INIT
#define INIT 0
#endif

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_CONTEXT = 201 };

static int initialised, retained[DEVICES + 1];
static __thread uintptr_t current; // 1 + device
static const uint64_t total = 25438126080ull;
static uint64_t used[DEVICES + 1], sizes[64];
static char memory[64][256]; // the first bytes of each allocation, which are all that can be copied
static int owners[64];

int cuInit(unsigned flags) { initialised = INIT == 0; return INIT; }

int cuGetErrorName(int status, const char **name) {
	switch (status) {
	case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return OK;
	case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return OK;
	case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; return OK;
	case 100: *name = "CUDA_ERROR_NO_DEVICE"; return OK;
	}
	*name = 0;
	return INVALID_VALUE;
}

int cuDriverGetVersion(int *version) { *version = 12080; return OK; }
int cuDeviceGetCount(int *count) { *count = DEVICES; return initialised ? OK : NOT_INITIALIZED; }

int cuDeviceGet(int *device, int ordinal) {
	if (ordinal < 0 || ordinal >= DEVICES) return INVALID_DEVICE;
	*device = ordinal;
	return OK;
}

int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "NVIDIA GeForce RTX 3090"); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = total; return OK; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
	switch (attribute) {
	case 16: *value = 82; return OK;
	case 75: *value = 8; return OK;
	case 76: *value = 6; return OK;
	}
	return INVALID_VALUE;
}

int cuDevicePrimaryCtxRetain(uintptr_t *context, int device) { retained[device]++; *context = 1 + device; return OK; }

int cuDevicePrimaryCtxRelease_v2(int device) {
	if (retained[device] == 0) return INVALID_CONTEXT;
	retained[device]--;
	return OK;
}

int cuCtxSetCurrent(uintptr_t context) { current = context; return OK; }

static int device_of_context(void) { return current && retained[current - 1] ? (int)current - 1 : -1; }

#ifndef NO_MEMORY_CALLS
int cuMemGetInfo_v2(size_t *free, size_t *all) {
	int device = device_of_context();
	if (device < 0) return INVALID_CONTEXT;
	*free = total - 300000000 - used[device];
	*all = total;
	return OK;
}
#endif

int cuMemAlloc_v2(uint64_t *ptr, size_t bytes) {
	int device = device_of_context();
	if (device < 0) return INVALID_CONTEXT;
	if (bytes == 0) return INVALID_VALUE;
	if (bytes > total - 300000000 - used[device]) return OUT_OF_MEMORY;
	for (int i = 0; i < 64; i++) {
		if (sizes[i]) continue;
		sizes[i] = bytes, owners[i] = device, used[device] += bytes;
		*ptr = 0x7f0000000000ull + 256 * i;
		return OK;
	}
	return 999;
}

int cuMemFree_v2(uint64_t ptr) {
	if (device_of_context() < 0) return INVALID_CONTEXT;
	uint64_t i = (ptr - 0x7f0000000000ull) / 256;
	if (i >= 64 || ptr % 256 || !sizes[i]) return INVALID_VALUE;
	used[owners[i]] -= sizes[i], sizes[i] = 0;
	return OK;
}

// at is where bytes of an allocation are, or NULL.
static char *at(uint64_t ptr, size_t bytes) {
	uint64_t i = (ptr - 0x7f0000000000ull) / 256, offset = ptr % 256;
	if (device_of_context() < 0 || i >= 64 || offset + bytes > sizes[i] || offset + bytes > 256) return 0;
	return memory[i] + offset;
}

int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes) {
	char *to = at(dst, bytes);
	if (!to) return INVALID_VALUE;
	memcpy(to, src, bytes);
	return OK;
}

int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes) {
	char *from = at(src, bytes);
	if (!from) return INVALID_VALUE;
	memcpy(dst, from, bytes);
	return OK;
}
