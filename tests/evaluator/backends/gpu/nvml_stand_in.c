/* A driver to ask where there is none: NVML's functions as nvml.h declares them, answering for one GPU, an H200.

   pynvml runs as it is; only the library below it is this one. NVML_STAND_IN, in the environment, says what is wrong:
   "init=18" (nvmlInit fails with that number), "count=0", "lost" (what is asked of the GPU fails with 15),
   "cuda=12040" (an old driver), "mute" (nothing optional is supported), "hot" (slowed down), "shared" (another process).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };
static const char UUID[] = "GPU-11111111-2222-3333-4444-555555555555";
static int the_gpu;

static const char *wrong(void) {
  const char *text = getenv("NVML_STAND_IN");
  return text ? text : "";
}
static int is(const char *what) { return strstr(wrong(), what) != NULL; }
static int number(const char *name, int otherwise) {
  const char *found = strstr(wrong(), name);
  return found ? atoi(found + strlen(name)) : otherwise;
}
static int needed(void) { return is("lost") ? GPU_IS_LOST : SUCCESS; }
static int optional(void) { return is("lost") ? GPU_IS_LOST : is("mute") ? NOT_SUPPORTED : SUCCESS; }

int nvmlInit_v2(void) { return number("init=", SUCCESS); }
int nvmlInitWithFlags(unsigned flags) { return (void)flags, number("init=", SUCCESS); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "Some error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { return snprintf(text, size, "580.159.04"), SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return *version = number("cuda=", 13000), SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = (unsigned)number("count=", 1), SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  return index ? NOT_FOUND : (*device = &the_gpu, needed());
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  return strcmp(uuid, UUID) ? NOT_FOUND : (*device = &the_gpu, SUCCESS);
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) { return snprintf(text, size, "%s", UUID), SUCCESS; }
int nvmlDeviceGetName(void *device, char *text, unsigned size) { return snprintf(text, size, "NVIDIA H200"), SUCCESS; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { return *major = 9, *minor = 0, SUCCESS; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *total_free_used) {
  total_free_used[0] = 150754820096ULL, total_free_used[1] = 150000000000ULL, total_free_used[2] = 754820096ULL;
  return SUCCESS;
}
int nvmlDeviceGetComputeMode(void *device, int *mode) { return *mode = number("mode=", 0), SUCCESS; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later) { return *now = *later = 0, optional(); }
int nvmlDeviceGetPersistenceMode(void *device, int *mode) { return *mode = 1, optional(); }
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz) { return *mhz = kind == 1 ? 1830 : 3201, optional(); }
int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned *mhz) {
  return *mhz = kind == 1 ? 1980 : 3201, optional();
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) { return *celsius = 41, optional(); }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { return *milliwatts = 123456, optional(); }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) { return *milliwatts = 700000, optional(); }
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits) {
  return *bits = is("hot") ? 0x8044 : 0x1, optional();
}
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int since, unsigned long long *count) {
  return *count = (unsigned long long)number("ecc=", 0), optional();
}
int nvmlDeviceGetUtilizationRates(void *device, unsigned *gpu_memory) {
  return gpu_memory[0] = 37, gpu_memory[1] = 5, optional();
}

struct process { /* nvmlProcessInfo_t */
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *found) {
  unsigned room = *count;
  if (optional() || !is("shared")) return *count = 0, optional();
  *count = 2;
  if (room < 2 || !found) return INSUFFICIENT_SIZE;
  found[0] = (struct process){4242, 1000000, 0, 0};
  found[1] = (struct process){4243, 0xffffffffffffffffULL, 0, 0};
  return SUCCESS;
}
