/* A driver's management library with one open GPU and one that is closed, as NVML's header lays its structures out. */
#include <stddef.h>
#include <string.h>

typedef struct { unsigned int pid; unsigned long long usedGpuMemory; unsigned int gpuInstanceId, computeInstanceId; } Process;
typedef struct { unsigned int pid; unsigned long long timeStamp; unsigned int smUtil, memUtil, encUtil, decUtil; } Sample;
typedef struct { unsigned int gpu, memory; } Utilisation;

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

static Process listed[8];
static Sample samples[8];
static unsigned int processes, sampled, opened, supported = 1;

/* What a test sets. */
void fake_reset(int utilisation_supported) { processes = sampled = 0; supported = (unsigned)utilisation_supported; }
void fake_process(unsigned int pid, unsigned long long memory) { Process one = {pid, memory, 0, 0}; listed[processes++] = one; }
void fake_sample(unsigned int pid, unsigned long long at, unsigned int busy) { Sample one = {pid, at, busy, 1, 2, 3}; samples[sampled++] = one; }
unsigned int fake_opened(void) { return opened; }

int nvmlInit_v2(void) { opened++; return SUCCESS; }
int nvmlShutdown(void) { opened--; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) { *handle = listed; return index ? NO_PERMISSION : SUCCESS; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned int length) { strncpy(text, "GPU-aaaa-1", length); return SUCCESS; }
int nvmlDeviceGetName(void *handle, char *text, unsigned int length) { strncpy(text, "NVIDIA A", length); return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, unsigned int length) { strncpy(text, "580.65.06", length); return SUCCESS; }
int nvmlDeviceGetUtilizationRates(void *handle, Utilisation *found) { found->gpu = 42; found->memory = 7; return SUCCESS; }

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, Process *rows) {
    unsigned int room = *count;
    *count = processes;
    if (room < processes) return INSUFFICIENT_SIZE;
    if (processes) memcpy(rows, listed, processes * sizeof(Process));
    return SUCCESS;
}

int nvmlDeviceGetProcessUtilization(void *handle, Sample *rows, unsigned int *count, unsigned long long since) {
    unsigned int room = *count, found = 0, k;
    if (!supported) return NOT_SUPPORTED;
    for (k = 0; k < sampled; k++) found += samples[k].timeStamp > since;
    if (!found) return NOT_FOUND;
    *count = found;
    if (rows == NULL || room < found) return INSUFFICIENT_SIZE;
    for (k = 0, found = 0; k < sampled; k++) if (samples[k].timeStamp > since) rows[found++] = samples[k];
    return SUCCESS;
}
