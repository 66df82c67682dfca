/* A scriptable stand-in for libnvidia-ml.so.1, for tests on machines without a GPU.
 *
 *   gcc -O1 -Wall -Wextra -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 nvml_stub.c
 *   LD_LIBRARY_PATH=. NVML_STUB=scenario.txt python -c 'import pynvml; pynvml.nvmlInit(); ...'
 *
 * The scenario is read again on every call, so a test can change it while the
 * agent runs. Lines: key=value, "#" starts a comment. Keys:
 *   count, driver, nvml, cuda (12080 = 12.8)
 *   gpuN.FIELD           one GPU's value; gpu.FIELD is the value for all
 *   gpuN.migM.FIELD      one slice's value (M from 0); gpu.mig.FIELD for all; a slice without uuid is not there
 *   topology.N.M=LEVEL   how far two GPUs are apart; topology=LEVEL for all others
 *   xids=N:CODE,N:CODE   Xid errors, each told once to whoever waits for events
 *   fail.FUNCTION=CODE   this function returns the NVML error code (15 = GPU_IS_LOST ...)
 *   gpuN.fail.FUNCTION=CODE, gpuN.lost=1 (every call on that GPU returns 15)
 *   gpuN.lost_after=N    sticky: from the Nth call on that GPU on, every call returns 15
 *   sleep.FUNCTION=MS    a hanging driver; gpuN.sleep.FUNCTION=MS on one GPU
 * In texts of a GPU, \xHH is one byte: a name that is not UTF-8.
 * A value "-" means NOT_SUPPORTED (3).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINIT = 1, INVALID = 2, NOTSUP = 3, NOTFOUND = 6, SMALL = 7, TIMEOUT = 10, LOST = 15 };
enum { GPUS = 64, SLICES = 8 };
typedef unsigned long long u64;
typedef struct { int index, slice; } dev_t_; /* slice 0: the whole GPU */
static dev_t_ devs[GPUS];
static dev_t_ slices[GPUS][SLICES];
static int inited;
static int calls[GPUS];

static int lookup(const char *key, char *out, size_t n)
{
    const char *path = getenv("NVML_STUB");
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[512];
    int hit = 0;
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        char *eq = strchr(line, '=');
        if (line[0] == '#' || !eq) continue;
        *eq = 0;
        if (strcmp(line, key)) continue;
        eq[1 + strcspn(eq + 1, "\r\n")] = 0;
        snprintf(out, n, "%s", eq + 1);
        hit = 1; /* the last line wins */
    }
    fclose(f);
    return hit;
}

static int field(const dev_t_ *d, const char *name, char *out, size_t n)
{
    char key[128];
    if (d->slice) {
        snprintf(key, sizeof key, "gpu%d.mig%d.%s", d->index, d->slice - 1, name);
        if (lookup(key, out, n)) return 1;
        snprintf(key, sizeof key, "gpu.mig.%s", name);
        return lookup(key, out, n);
    }
    snprintf(key, sizeof key, "gpu%d.%s", d->index, name);
    if (lookup(key, out, n)) return 1;
    snprintf(key, sizeof key, "gpu.%s", name);
    return lookup(key, out, n);
}

static int is_known(const dev_t_ *d)
{
    return (d >= devs && d < devs + GPUS) || (d >= &slices[0][0] && d < &slices[0][0] + GPUS * SLICES);
}

static int gate(const char *fn, const dev_t_ *d, int need_init)
{
    char key[128], v[64];
    snprintf(key, sizeof key, "sleep.%s", fn);
    if (d && is_known(d) ? field(d, key, v, sizeof v) || lookup(key, v, sizeof v) : lookup(key, v, sizeof v))
        usleep(1000u * (unsigned)atoi(v)); /* gpuN.sleep.FN: a driver that hangs on one GPU */
    snprintf(key, sizeof key, "fail.%s", fn);
    if (lookup(key, v, sizeof v)) return atoi(v);
    if (need_init && !inited) return UNINIT;
    if (d) {
        if (!is_known(d)) return INVALID;
        if (field(d, "lost", v, sizeof v) && atoi(v)) return LOST;
        calls[d->index]++;
        if (field(d, "lost_after", v, sizeof v) && calls[d->index] >= atoi(v)) return LOST;
        if (field(d, key, v, sizeof v)) return atoi(v); /* gpuN.fail.FN */
    }
    return OK;
}

static int num(const dev_t_ *d, const char *name, u64 *out)
{
    char v[128];
    if (!field(d, name, v, sizeof v) || !strcmp(v, "-")) return NOTSUP;
    *out = strtoull(v, NULL, 0);
    return OK;
}

/* "caf\xe9" in a scenario becomes the byte 0xe9. */
static void unescape(char *text)
{
    char *from = text, *to = text;
    unsigned byte;
    while (*from)
        if (from[0] == '\\' && from[1] == 'x' && sscanf(from + 2, "%2x", &byte) == 1) {
            *to++ = (char)byte;
            from += 4;
        } else {
            *to++ = *from++;
        }
    *to = 0;
}

static int str(const dev_t_ *d, const char *name, char *out, unsigned n)
{
    char v[256];
    if (!field(d, name, v, sizeof v) || !strcmp(v, "-")) return NOTSUP;
    unescape(v);
    if (strlen(v) + 1 > n) return SMALL;
    strcpy(out, v);
    return OK;
}

static int sys(const char *name, char *out, unsigned n)
{
    char v[256];
    if (!lookup(name, v, sizeof v)) return NOTSUP;
    if (strlen(v) + 1 > n) return SMALL;
    strcpy(out, v);
    return OK;
}

#define GATE(d) do { int rc_ = gate(__func__, d, 1); if (rc_) return rc_; } while (0)
#define UINT(d, name, out) do { u64 x_; int rc_ = num(d, name, &x_); if (rc_) return rc_; *(out) = (unsigned)x_; } while (0)

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    int rc = gate("nvmlInitWithFlags", NULL, 0);
    if (rc == OK) inited++;
    return rc;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void)
{
    GATE(NULL);
    inited--;
    return OK;
}
int nvmlSystemGetDriverVersion(char *s, unsigned n) { GATE(NULL); return sys("driver", s, n); }
int nvmlSystemGetNVMLVersion(char *s, unsigned n) { GATE(NULL); return sys("nvml", s, n); }
int nvmlSystemGetCudaDriverVersion(int *v)
{
    char s[32];
    GATE(NULL);
    int rc = sys("cuda", s, sizeof s);
    if (rc == OK) *v = atoi(s);
    return rc;
}
int nvmlSystemGetCudaDriverVersion_v2(int *v) { return nvmlSystemGetCudaDriverVersion(v); }
int nvmlDeviceGetCount_v2(unsigned *n)
{
    char s[32];
    GATE(NULL);
    *n = sys("count", s, sizeof s) == OK ? (unsigned)atoi(s) : 0;
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, dev_t_ **d)
{
    unsigned n = 0;
    GATE(NULL);
    nvmlDeviceGetCount_v2(&n);
    if (i >= n || i >= GPUS) return INVALID;
    devs[i].index = (int)i;
    *d = &devs[i];
    return gate("nvmlDeviceGetHandleByIndex_v2", *d, 1);
}
int nvmlDeviceGetHandleByUUID(const char *uuid, dev_t_ **d)
{
    unsigned n = 0;
    char v[96];
    GATE(NULL);
    nvmlDeviceGetCount_v2(&n);
    for (unsigned i = 0; i < n && i < GPUS; i++)
        if (field(&(dev_t_){ (int)i, 0 }, "uuid", v, sizeof v) && !strcmp(v, uuid))
            return nvmlDeviceGetHandleByIndex_v2(i, d);
    return NOTFOUND;
}
int nvmlDeviceGetName(dev_t_ *d, char *s, unsigned n) { GATE(d); return str(d, "name", s, n); }
int nvmlDeviceGetUUID(dev_t_ *d, char *s, unsigned n) { GATE(d); return str(d, "uuid", s, n); }
int nvmlDeviceGetSerial(dev_t_ *d, char *s, unsigned n) { GATE(d); return str(d, "serial", s, n); }
int nvmlDeviceGetVbiosVersion(dev_t_ *d, char *s, unsigned n) { GATE(d); return str(d, "vbios", s, n); }
int nvmlDeviceGetIndex(dev_t_ *d, unsigned *i) { GATE(d); *i = (unsigned)d->index; return OK; }

struct mem { u64 total, free, used; };
struct mem2 { unsigned version; u64 total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo(dev_t_ *d, struct mem *m)
{
    u64 t, u = 0;
    GATE(d);
    int rc = num(d, "mem_total", &t);
    if (rc) return rc;
    num(d, "mem_used", &u);
    m->total = t; m->used = u; m->free = t - u;
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(dev_t_ *d, struct mem2 *m)
{
    u64 t, u = 0, r = 0;
    GATE(d);
    if (m->version != 0x02000028) return 25; /* ARGUMENT_VERSION_MISMATCH */
    int rc = num(d, "mem_total", &t);
    if (rc) return rc;
    num(d, "mem_used", &u);
    num(d, "mem_reserved", &r);
    m->total = t; m->used = u; m->reserved = r; m->free = t - u - r;
    return OK;
}
struct bar1 { u64 total, free, used; };
int nvmlDeviceGetBAR1MemoryInfo(dev_t_ *d, struct bar1 *b)
{
    u64 t;
    GATE(d);
    int rc = num(d, "bar1_total", &t);
    if (rc == OK) *b = (struct bar1){ t, t, 0 };
    return rc;
}
struct util { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(dev_t_ *d, struct util *u)
{
    GATE(d);
    UINT(d, "util_gpu", &u->gpu);
    u->memory = 0;
    UINT(d, "util_mem", &u->memory);
    return OK;
}
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsys; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(dev_t_ *d, struct pci *p)
{
    u64 id = 0, sub = 0;
    GATE(d);
    memset(p, 0, sizeof *p);
    int rc = str(d, "bus_id", p->bus_id, sizeof p->bus_id);
    if (rc) return rc;
    num(d, "pci_id", &id);
    num(d, "pci_subsys", &sub);
    sscanf(p->bus_id, "%x:%x:%x", &p->domain, &p->bus, &p->device);
    snprintf(p->legacy, sizeof p->legacy, "%04x:%02x:%02x.0", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff);
    p->id = (unsigned)id; p->subsys = (unsigned)sub;
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(dev_t_ *d, int *maj, int *min)
{
    u64 cc; /* 89 = 8.9, 120 = 12.0 */
    GATE(d);
    int rc = num(d, "cc", &cc);
    if (rc == OK) { *maj = (int)(cc / 10); *min = (int)(cc % 10); }
    return rc;
}
int nvmlDeviceGetTemperature(dev_t_ *d, unsigned sensor, unsigned *t) { (void)sensor; GATE(d); UINT(d, "temp", t); return OK; }
int nvmlDeviceGetPowerUsage(dev_t_ *d, unsigned *mw) { GATE(d); UINT(d, "power", mw); return OK; }
int nvmlDeviceGetEnforcedPowerLimit(dev_t_ *d, unsigned *mw) { GATE(d); UINT(d, "power_limit", mw); return OK; }
int nvmlDeviceGetPowerManagementDefaultLimit(dev_t_ *d, unsigned *mw) { GATE(d); UINT(d, "power_default", mw); return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(dev_t_ *d, unsigned *v) { GATE(d); UINT(d, "pcie_gen", v); return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(dev_t_ *d, unsigned *v) { GATE(d); UINT(d, "pcie_gen_max", v); return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(dev_t_ *d, unsigned *v) { GATE(d); UINT(d, "pcie_width", v); return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(dev_t_ *d, unsigned *v) { GATE(d); UINT(d, "pcie_width_max", v); return OK; }
int nvmlDeviceGetPcieReplayCounter(dev_t_ *d, unsigned *v) { GATE(d); UINT(d, "pcie_replay", v); return OK; }
int nvmlDeviceGetMigMode(dev_t_ *d, unsigned *cur, unsigned *pend) { GATE(d); UINT(d, "mig", cur); *pend = *cur; return OK; }
int nvmlDeviceGetEccMode(dev_t_ *d, unsigned *cur, unsigned *pend) { GATE(d); UINT(d, "ecc", cur); *pend = *cur; return OK; }
int nvmlDeviceGetTotalEccErrors(dev_t_ *d, unsigned type, unsigned counter, u64 *v)
{
    char key[32];
    GATE(d);
    snprintf(key, sizeof key, "ecc_%s_%s", type ? "uncorr" : "corr", counter ? "total" : "volatile");
    return num(d, key, v);
}
int nvmlDeviceGetRemappedRows(dev_t_ *d, unsigned *corr, unsigned *unc, unsigned *pending, unsigned *failed)
{
    GATE(d);
    UINT(d, "remap_corr", corr);
    UINT(d, "remap_unc", unc);
    UINT(d, "remap_pending", pending);
    UINT(d, "remap_failed", failed);
    return OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(dev_t_ *d, u64 *v) { GATE(d); return num(d, "throttle", v); }
int nvmlDeviceGetCurrentClocksEventReasons(dev_t_ *d, u64 *v) { GATE(d); return num(d, "throttle", v); }
int nvmlDeviceGetClockInfo(dev_t_ *d, unsigned type, unsigned *v) { GATE(d); UINT(d, type == 2 ? "clock_mem" : "clock_sm", v); return OK; }
int nvmlDeviceGetMaxClockInfo(dev_t_ *d, unsigned type, unsigned *v) { GATE(d); UINT(d, type == 2 ? "clock_mem_max" : "clock_sm_max", v); return OK; }
int nvmlDeviceGetMemoryBusWidth(dev_t_ *d, unsigned *v) { GATE(d); UINT(d, "bus_width", v); return OK; }
int nvmlDeviceGetNumGpuCores(dev_t_ *d, unsigned *v) { GATE(d); UINT(d, "cores", v); return OK; }
int nvmlDeviceGetVirtualizationMode(dev_t_ *d, unsigned *v) { GATE(d); UINT(d, "virt", v); return OK; }
int nvmlDeviceGetNvLinkState(dev_t_ *d, unsigned link, unsigned *on)
{
    u64 n;
    GATE(d);
    int rc = num(d, "nvlinks", &n);
    if (rc) return rc;
    if (link >= 18) return INVALID;
    *on = link < n;
    return OK;
}
struct proc { unsigned pid; u64 used; unsigned gi, ci; };
int nvmlDeviceGetComputeRunningProcesses_v3(dev_t_ *d, unsigned *n, struct proc *out)
{
    char v[256], *save = NULL;
    unsigned have = 0, room = out ? *n : 0;
    GATE(d);
    if (field(d, "procs", v, sizeof v)) /* pid:bytes,pid:bytes ; bytes "-" = not available */
        for (char *p = strtok_r(v, ",", &save); p; p = strtok_r(NULL, ",", &save), have++)
            if (have < room) {
                char *c = strchr(p, ':');
                out[have] = (struct proc){ (unsigned)atoi(p), c && c[1] != '-' ? strtoull(c + 1, NULL, 0) : ~0ull, ~0u, ~0u };
            }
    *n = have;
    return have > room ? SMALL : OK;
}
#define PLAIN(fn, name) int fn(dev_t_ *d, unsigned *v) { GATE(d); UINT(d, name, v); return OK; }
PLAIN(nvmlDeviceGetMinorNumber, "minor")
PLAIN(nvmlDeviceGetBoardId, "board_id")
PLAIN(nvmlDeviceGetArchitecture, "arch")
PLAIN(nvmlDeviceGetPerformanceState, "pstate")
PLAIN(nvmlDeviceGetFanSpeed, "fan")
PLAIN(nvmlDeviceGetRetiredPagesPendingStatus, "pages_pending")
PLAIN(nvmlDeviceGetComputeMode, "compute_mode")
PLAIN(nvmlDeviceGetPersistenceMode, "persistence")
PLAIN(nvmlDeviceGetDisplayActive, "display")
PLAIN(nvmlDeviceGetGpuInstanceId, "gi")
PLAIN(nvmlDeviceGetComputeInstanceId, "ci")
PLAIN(nvmlDeviceGetMaxMigDeviceCount, "mig_max")
int nvmlDeviceGetTemperatureThreshold(dev_t_ *d, unsigned which, unsigned *v)
{
    GATE(d);
    UINT(d, which == 0 ? "temp_shutdown" : "temp_slowdown", v);
    return OK;
}
int nvmlDeviceGetPowerManagementLimitConstraints(dev_t_ *d, unsigned *low, unsigned *high)
{
    GATE(d);
    UINT(d, "power_min", low);
    UINT(d, "power_max", high);
    return OK;
}
int nvmlDeviceGetPowerManagementLimit(dev_t_ *d, unsigned *mw) { GATE(d); UINT(d, "power_limit", mw); return OK; }
/* What is set is written to the scenario, where the next process finds it, as it does in a driver. */
int nvmlDeviceSetPowerManagementLimit(dev_t_ *d, unsigned mw)
{
    const char *path = getenv("NVML_STUB");
    FILE *f;
    GATE(d);
    f = path ? fopen(path, "a") : NULL;
    if (!f) return NOTSUP;
    fprintf(f, "gpu%d.power_limit=%u\n", d->index, mw);
    fclose(f);
    return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(dev_t_ *d, u64 *v) { GATE(d); return num(d, "energy", v); }
int nvmlDeviceGetTopologyCommonAncestor(dev_t_ *a, dev_t_ *b, unsigned *level)
{
    char key[64], v[32];
    GATE(a);
    snprintf(key, sizeof key, "topology.%d.%d", a->index, b->index);
    if (!lookup(key, v, sizeof v) && !lookup("topology", v, sizeof v)) return NOTSUP;
    *level = (unsigned)atoi(v);
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(dev_t_ *d, unsigned i, dev_t_ **out)
{
    char v[96];
    GATE(d);
    if (i >= SLICES) return INVALID;
    slices[d->index][i] = (dev_t_){ d->index, (int)i + 1 };
    *out = &slices[d->index][i];
    return field(*out, "uuid", v, sizeof v) ? OK : NOTFOUND;
}
struct attributes { unsigned sms, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices; u64 mib; };
int nvmlDeviceGetAttributes_v2(dev_t_ *d, struct attributes *a)
{
    GATE(d);
    memset(a, 0, sizeof *a);
    UINT(d, "sms", &a->sms);
    return OK;
}
static int told; /* Xids already handed out by this process */
struct event { dev_t_ *device; u64 type, number; unsigned gi, ci; };
int nvmlEventSetCreate(void **set) { GATE(NULL); *set = &told; return OK; }
int nvmlEventSetFree(void *set) { (void)set; GATE(NULL); return OK; }
int nvmlDeviceRegisterEvents(dev_t_ *d, u64 types, void *set) { (void)types; (void)set; GATE(d); return OK; }
int nvmlEventSetWait_v2(void *set, struct event *e, unsigned timeout_ms)
{
    (void)set;
    GATE(NULL);
    for (unsigned waited = 0; waited <= timeout_ms; waited += 20) {
        char v[256], *save = NULL;
        int at = 0;
        if (lookup("xids", v, sizeof v))
            for (char *p = strtok_r(v, ",", &save); p; p = strtok_r(NULL, ",", &save), at++)
                if (at == told) {
                    char *c = strchr(p, ':');
                    told++;
                    *e = (struct event){ &devs[atoi(p) % GPUS], 8, c ? strtoull(c + 1, NULL, 10) : 0, ~0u, ~0u };
                    return OK;
                }
        usleep(20000);
    }
    return TIMEOUT;
}
const char *nvmlErrorString(int rc) { (void)rc; return "stub"; }
