/* An NVML without a driver: what a test says in a file is what it answers.

   NVML_STUB names a text file of "key value" lines, read again at every call, so that a test changes the answers of a
   running process. Keys: error.FUNCTION (an NVML return code; error.* for every call on a device), sm_mhz, power_mw,
   energy_mj, reasons, used_bytes, pid, xid, field_error, mig. Calls that set something are appended to NVML_STUB.log.

   Four cards, GPU-0 to GPU-3, with 10, 20, 30 and 40 W, and MIG-2, a slice of GPU-2. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARDS 4
#define SLICE 100

static int xid_told;

static long long answer(const char *key, long long otherwise) {
    const char *path = getenv("NVML_STUB");
    FILE *file = path ? fopen(path, "r") : NULL;
    char name[128];
    long long value, found = otherwise;
    if (!file) return otherwise;
    while (fscanf(file, "%127s %lld", name, &value) == 2)
        if (!strcmp(name, key)) found = value;
    fclose(file);
    return found;
}

static void note(const char *what, long long a, long long b, long long c) {
    const char *path = getenv("NVML_STUB");
    char name[4096];
    FILE *file;
    if (!path) return;
    snprintf(name, sizeof name, "%s.log", path);
    file = fopen(name, "a");
    if (!file) return;
    fprintf(file, "%s %lld %lld %lld\n", what, a, b, c);
    fclose(file);
}

static int failure(const char *function) {
    char key[160];
    snprintf(key, sizeof key, "error.%s", function);
    return (int)answer(key, answer("error.*", 0));
}

#define CHECK if (failure(__func__)) return failure(__func__)
#define CARD(device) ((int)(long)(device) - 1)
typedef void *Device;

int nvmlInitWithFlags(unsigned flags) { (void)flags; return (int)answer("error.nvmlInitWithFlags", 0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "stub"; }

int nvmlSystemGetDriverVersion(char *out, unsigned size) { CHECK; snprintf(out, size, "999.1"); return 0; }

int nvmlDeviceGetCount_v2(unsigned *out) { CHECK; *out = CARDS; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out) { CHECK; *out = (Device)(long)(index + 1); return 0; }

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *out) {
    int card = (int)answer("error.nvmlDeviceGetHandleByUUID", 0);
    if (card) return card;
    if (!strcmp(uuid, "MIG-2")) { *out = (Device)(long)(SLICE + 1); return 0; }
    if (sscanf(uuid, "GPU-%d", &card) != 1 || card < 0 || card >= CARDS) return 6;
    if (answer("mig", 0) && card == 2) return 6;
    *out = (Device)(long)(card + 1);
    return 0;
}

int nvmlDeviceGetUUID(Device device, char *out, unsigned size) {
    CHECK; snprintf(out, size, "GPU-%d", CARD(device)); return 0;
}
int nvmlDeviceGetName(Device device, char *out, unsigned size) {
    CHECK; snprintf(out, size, CARD(device) == SLICE ? "Stub Card MIG 1g.10gb" : "Stub Card"); return 0;
}
int nvmlDeviceIsMigDeviceHandle(Device device, unsigned *out) { CHECK; *out = CARD(device) == SLICE; return 0; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device device, Device *out) {
    CHECK; (void)device; *out = (Device)3; return 0;
}
int nvmlDeviceGetMigMode(Device device, unsigned *now, unsigned *pending) {
    CHECK; (void)device; *now = *pending = (unsigned)answer("mig", 0); return 0;
}
int nvmlDeviceGetPersistenceMode(Device device, unsigned *out) {
    CHECK; (void)device; *out = (unsigned)answer("persistence", 0); return 0;
}

/* Of a slice, the card's own figures are refused, as real drivers do. */
#define WHOLE if (CARD(device) == SLICE) return 3

int nvmlDeviceGetClockInfo(Device device, int clock, unsigned *mhz) {
    CHECK; WHOLE; *mhz = clock == 1 ? (unsigned)answer("sm_mhz", 1500) : 2600; return 0;
}
int nvmlDeviceGetMaxClockInfo(Device device, int clock, unsigned *mhz) {
    CHECK; WHOLE; (void)clock; *mhz = 1980; return 0;
}
int nvmlDeviceGetDefaultApplicationsClock(Device device, int clock, unsigned *mhz) {
    CHECK; WHOLE; (void)clock; *mhz = 1410; return 0;
}
#ifndef OLD_DRIVER
int nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long *out) {
    CHECK; WHOLE; *out = (unsigned long long)answer("reasons", 0); return 0;
}
#endif
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *out) {
    CHECK; WHOLE; *out = (unsigned long long)answer("reasons", 0); return 0;
}
int nvmlDeviceGetPowerUsage(Device device, unsigned *out) {
    CHECK; WHOLE; *out = (unsigned)answer("power_mw", 10000 * (CARD(device) + 1)); return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned *out) { CHECK; WHOLE; *out = 700000; return 0; }
int nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long *out) {
    CHECK; WHOLE; *out = (unsigned long long)answer("energy_mj", 5000); return 0;
}
int nvmlDeviceGetTemperature(Device device, int sensor, unsigned *out) {
    CHECK; WHOLE; (void)sensor; *out = 61; return 0;
}
int nvmlDeviceGetUtilizationRates(Device device, unsigned *out) { CHECK; WHOLE; out[0] = 87; out[1] = 40; return 0; }
int nvmlDeviceGetMemoryInfo(Device device, unsigned long long *out) {
    CHECK;
    out[0] = CARD(device) == SLICE ? 10ULL << 30 : 80ULL << 30;
    out[2] = (unsigned long long)answer("used_bytes", 1 << 30);
    out[1] = out[0] - out[2];
    return 0;
}

typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, Process *out) {
    long long pid = answer("pid", 0);
    CHECK;
    (void)device;
    if (!pid) { *count = 0; return 0; }
    if (!out) { *count = 1; return 7; }
    *count = 1;
    out[0].pid = (unsigned)pid;
    out[0].used = 1 << 20;
    out[0].gi = out[0].ci = 0xFFFFFFFF;
    return 0;
}

int nvmlDeviceGetTotalEccErrors(Device device, int error, int counter, unsigned long long *out) {
    CHECK; WHOLE; (void)error; (void)counter; *out = 0; return 0;
}
int nvmlDeviceGetRemappedRows(Device device, unsigned *corrected, unsigned *not, unsigned *pending, unsigned *failed) {
    CHECK; WHOLE; *corrected = 1; *not = 2; *pending = *failed = 0; return 0;
}
int nvmlDeviceGetPcieThroughput(Device device, int counter, unsigned *out) {
    CHECK; WHOLE; *out = counter == 0 ? 1000 : 2000; return 0;
}
int nvmlDeviceGetPcieReplayCounter(Device device, unsigned *out) { CHECK; WHOLE; *out = 3; return 0; }

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    int type, code;
    unsigned long long value;
} Field;
int nvmlDeviceGetFieldValues(Device device, int count, Field *out) {
    CHECK;
    WHOLE;
    for (int i = 0; i < count; i++) {
        out[i].code = (int)answer("field_error", out[i].scope == 0xFFFFFFFF ? 0 : 2);
        out[i].type = 3;
        out[i].value = out[i].field == 138 ? 7 : 9;
    }
    return 0;
}

typedef struct { Device device; unsigned long long type, data; unsigned gi, ci; } Event;
int nvmlEventSetCreate(void **out) { CHECK; *out = (void *)1; return 0; }
int nvmlEventSetFree(void *set) { (void)set; return 0; }
int nvmlDeviceRegisterEvents(Device device, unsigned long long types, void *set) {
    CHECK; WHOLE; (void)set; return types == 8 ? 0 : 2;
}
int nvmlEventSetWait_v2(void *set, Event *out, unsigned timeout) {
    CHECK;
    (void)set; (void)timeout;
    if (xid_told || !answer("xid", 0)) return 10;
    xid_told = 1;
    out->type = 8;
    out->data = (unsigned long long)answer("xid", 0);
    return 0;
}

int nvmlDeviceSetGpuLockedClocks(Device device, unsigned low, unsigned high) {
    CHECK; note("lock", CARD(device), low, high); return 0;
}
int nvmlDeviceResetGpuLockedClocks(Device device) { CHECK; note("reset", CARD(device), 0, 0); return 0; }
