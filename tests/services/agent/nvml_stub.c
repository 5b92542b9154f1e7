/* A libnvidia-ml that plays a tape: a text file, read anew at every call, so that cards fail while somebody looks.
 *
 * A line is "FUNCTION DEVICE STATUS VALUES...": what this function returns for this device, and what it gives. DEVICE
 * "*" is any. A card has its index plus 1, the MIG device K of card I has 100 * (I + 1) + K, the GPU instance G of
 * card I has 10000 * (I + 1) + G. A function without a line answers 3, Not Supported. Events are lines "event DEVICE
 * XID", given once each. Layouts of structures are those of nvml.h.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int ret;
typedef uintptr_t dev;

enum { NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };

static ret ask(const char *function, dev device, char *given) {
    char line[512], name[128], where[32];
    int status = NOT_SUPPORTED, rank = 0, used;
    FILE *tape = fopen(getenv("NVML_TAPE"), "r");
    given[0] = 0;
    if (tape == NULL) return 9;
    while (fgets(line, sizeof line, tape)) {
        int said;
        if (sscanf(line, "%127s %31s %d %n", name, where, &said, &used) < 3 || strcmp(name, function) != 0) continue;
        int exact = strcmp(where, "*") != 0;
        if ((exact && strtoul(where, NULL, 10) != device) || exact + 1 < rank) continue;
        rank = exact + 1;
        status = said;
        strcpy(given, line + used);
        given[strcspn(given, "\n")] = 0;
    }
    fclose(tape);
    return status;
}

static unsigned long long part(const char *given, int index) {
    char copy[512], *word;
    strcpy(copy, given);
    word = strtok(copy, " ");
    while (index-- > 0 && word) word = strtok(NULL, " ");
    return word ? strtoull(word, NULL, 0) : 0;
}

#define TEXT(name) \
    ret name(dev d, char *out, unsigned size) { \
        char s[512]; ret r = ask(#name, d, s); if (!r) snprintf(out, size, "%s", s); return r; }
#define ONE(name, type) \
    ret name(dev d, type *out) { char s[512]; ret r = ask(#name, d, s); if (!r) *out = part(s, 0); return r; }
#define TWO(name) \
    ret name(dev d, unsigned *a, unsigned *b) { \
        char s[512]; ret r = ask(#name, d, s); if (!r) { *a = part(s, 0); *b = part(s, 1); } return r; }
#define PICK(name, type) /* one value of several, chosen by a number */ \
    ret name(dev d, unsigned which, type *out) { \
        char n[128], s[512]; sprintf(n, #name ":%u", which); \
        ret r = ask(n, d, s); if (r == NOT_SUPPORTED) r = ask(#name, d, s); if (!r) *out = part(s, 0); return r; }

ret nvmlInitWithFlags(unsigned flags) { char s[512]; return ask("nvmlInit", 0, s); }
ret nvmlShutdown(void) { return 0; }
ret nvmlDeviceGetCount_v2(unsigned *n) { char s[512]; ret r = ask("nvmlDeviceGetCount", 0, s); if (!r) *n = part(s, 0); return r; }
ret nvmlDeviceGetHandleByIndex_v2(unsigned i, dev *d) { char s[512]; *d = i + 1; ret r = ask("handle", *d, s); return r == NOT_SUPPORTED ? 0 : r; }
ret nvmlSystemGetDriverVersion(char *out, unsigned size) { char s[512]; ret r = ask("nvmlSystemGetDriverVersion", 0, s); if (!r) snprintf(out, size, "%s", s); return r; }
ret nvmlSystemGetCudaDriverVersion(int *out) { char s[512]; ret r = ask("nvmlSystemGetCudaDriverVersion", 0, s); if (!r) *out = part(s, 0); return r; }
TEXT(nvmlDeviceGetUUID)
TEXT(nvmlDeviceGetName)
ret nvmlDeviceGetMemoryInfo(dev d, unsigned long long *m) {
    char s[512]; ret r = ask("nvmlDeviceGetMemoryInfo", d, s);
    if (!r) { m[0] = part(s, 0); m[2] = part(s, 1); m[1] = m[0] - m[2]; } return r; }
TWO(nvmlDeviceGetEncoderUtilization)
TWO(nvmlDeviceGetDecoderUtilization)
TWO(nvmlDeviceGetMigMode)
ret nvmlDeviceGetUtilizationRates(dev d, unsigned *u) {
    char s[512]; ret r = ask("nvmlDeviceGetUtilizationRates", d, s); if (!r) { u[0] = part(s, 0); u[1] = part(s, 1); } return r; }
PICK(nvmlDeviceGetTemperature, unsigned)
PICK(nvmlDeviceGetClockInfo, unsigned)
ONE(nvmlDeviceGetPowerUsage, unsigned)
ONE(nvmlDeviceGetEnforcedPowerLimit, unsigned)
ONE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long)
#ifndef OLD_DRIVER
ONE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)
#else
ONE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long)
#endif
ret nvmlDeviceGetTotalEccErrors(dev d, unsigned kind, unsigned counter, unsigned long long *out) {
    char s[512]; ret r = ask("nvmlDeviceGetTotalEccErrors", d, s); if (!r) *out = part(s, kind); return r; }
ret nvmlDeviceGetRemappedRows(dev d, unsigned *c, unsigned *u, unsigned *p, unsigned *f) {
    char s[512]; ret r = ask("nvmlDeviceGetRemappedRows", d, s);
    if (!r) { *c = part(s, 0); *u = part(s, 1); *p = part(s, 2); *f = part(s, 3); } return r; }
struct expiry { unsigned year; unsigned short month, day, hour, minute, second; unsigned char status; };
struct feature { int code; unsigned state; char info[128], product[128]; unsigned enabled; struct expiry expiry; };
struct features { int supported; unsigned count; struct feature of[3]; };
ret nvmlDeviceGetGridLicensableFeatures_v4(dev d, struct features *out) {
    char s[512]; ret r = ask("nvmlDeviceGetGridLicensableFeatures_v4", d, s);
    if (!r) { out->supported = part(s, 0); out->count = 1; out->of[0].state = part(s, 1); } return r; }
ONE(nvmlDeviceGetMinorNumber, unsigned)
ONE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned)
ONE(nvmlDeviceGetCurrPcieLinkWidth, unsigned)
ONE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned)
ONE(nvmlDeviceGetMaxPcieLinkWidth, unsigned)
ONE(nvmlDeviceGetPcieReplayCounter, unsigned)
PICK(nvmlDeviceGetPcieThroughput, unsigned)
PICK(nvmlDeviceGetNvLinkState, unsigned)
PICK(nvmlDeviceGetNvLinkVersion, unsigned)
PICK(nvmlDeviceGetNvLinkRemoteDeviceType, unsigned)
ret nvmlDeviceGetNvLinkErrorCounter(dev d, unsigned link, unsigned kind, unsigned long long *out) {
    char s[512]; ret r = ask("nvmlDeviceGetNvLinkErrorCounter", d, s); if (!r) *out = part(s, kind); return r; }

struct pci { char legacy[16]; unsigned domain, bus, device, id, sub; char name[32]; };
static ret pci(const char *function, dev d, struct pci *out) {
    char s[512]; ret r = ask(function, d, s);
    if (!r) { memset(out, 0, sizeof *out); out->domain = part(s, 0); out->bus = part(s, 1); out->device = part(s, 2); } return r; }
ret nvmlDeviceGetPciInfo_v3(dev d, struct pci *out) { return pci("nvmlDeviceGetPciInfo", d, out); }
ret nvmlDeviceGetNvLinkRemotePciInfo_v2(dev d, unsigned link, struct pci *out) {
    char n[128]; sprintf(n, "nvmlDeviceGetNvLinkRemotePciInfo:%u", link); return pci(n, d, out); }
ret nvmlDeviceGetP2PStatus(dev a, dev b, int what, int *out) {
    char n[128], s[512]; sprintf(n, "nvmlDeviceGetP2PStatus:%lu", (unsigned long)b);
    ret r = ask(n, a, s); if (!r) *out = part(s, 0); return r; }
ret nvmlDeviceGetTopologyCommonAncestor(dev a, dev b, unsigned *out) {
    char n[128], s[512]; sprintf(n, "nvmlDeviceGetTopologyCommonAncestor:%lu", (unsigned long)b);
    ret r = ask(n, a, s); if (!r) *out = part(s, 0); return r; }

struct process { unsigned pid; unsigned long long memory; unsigned instance, compute; };
ret nvmlDeviceGetComputeRunningProcesses_v3(dev d, unsigned *count, struct process *out) {
    char s[512]; ret r = ask("nvmlDeviceGetComputeRunningProcesses", d, s);
    unsigned found = 0;
    if (r) return r;
    while (part(s, 3 * found) != 0) found++;
    if (found == 0) { *count = 0; return 0; }
    if (out == NULL || *count < found) { *count = found; return INSUFFICIENT_SIZE; }
    for (unsigned k = 0; k < found; k++) {
        out[k].pid = part(s, 3 * k); out[k].memory = part(s, 3 * k + 1);
        out[k].instance = part(s, 3 * k + 2); out[k].compute = 0; }
    *count = found;
    return 0; }

struct field { unsigned id, scope; int64_t at, latency; unsigned type; ret status; unsigned long long value; };
ret nvmlDeviceGetFieldValues(dev d, int count, struct field *fields) {
    char n[128], s[512]; ret r = ask("fields", d, s);
    if (r && r != NOT_SUPPORTED) return r;
    for (int k = 0; k < count; k++) {
        sprintf(n, "field:%u", fields[k].id);
        fields[k].status = ask(n, d, s); fields[k].type = 3; fields[k].value = part(s, 0); }
    return 0; }

ONE(nvmlDeviceGetMaxMigDeviceCount, unsigned)
ret nvmlDeviceGetMigDeviceHandleByIndex(dev d, unsigned k, dev *out) {
    char s[512]; *out = 100 * d + k; ret r = ask("nvmlDeviceGetUUID", *out, s); return r == NOT_SUPPORTED ? 6 : r; }
ONE(nvmlDeviceGetGpuInstanceId, unsigned)
ret nvmlDeviceGetGpuInstanceById(dev d, unsigned id, dev *out) {
    char s[512]; *out = 10000 * d + id; return ask("nvmlGpuInstanceGetInfo", *out, s); }
struct instance { dev device; unsigned id, profile, start, size; };
ret nvmlGpuInstanceGetInfo(dev instance, struct instance *out) {
    char s[512]; ret r = ask("nvmlGpuInstanceGetInfo", instance, s);
    if (!r) { out->id = instance % 10000; out->start = part(s, 0); out->size = part(s, 1); } return r; }

#ifndef OLD_DRIVER
struct support { unsigned version, is_supported; };
ret nvmlGpmQueryDeviceSupport(dev d, struct support *out) {
    char s[512]; ret r = ask("nvmlGpmQueryDeviceSupport", d, s); if (!r) out->is_supported = part(s, 0); return r; }
struct snapshot { dev of; };
ret nvmlGpmSampleAlloc(struct snapshot **out) { *out = calloc(1, sizeof **out); return 0; }
ret nvmlGpmSampleFree(struct snapshot *one) { free(one); return 0; }
ret nvmlGpmSampleGet(dev d, struct snapshot *one) { char s[512]; one->of = d; return ask("nvmlGpmQueryDeviceSupport", d, s); }
ret nvmlGpmMigSampleGet(dev d, unsigned instance, struct snapshot *one) {
    char s[512]; one->of = 10000 * d + instance; return ask("nvmlGpmMigSampleGet", one->of, s); }
struct metric { unsigned id; ret status; double value; const char *names[3]; };
struct metrics { unsigned version, count; struct snapshot *before, *now; struct metric list[]; };
ret nvmlGpmMetricsGet(struct metrics *asked) {
    char n[128], s[512];
    for (unsigned k = 0; k < asked->count; k++) {
        sprintf(n, "gpm:%u", asked->list[k].id);
        asked->list[k].status = ask(n, asked->now->of, s); asked->list[k].value = strtod(s, NULL); }
    return asked->before->of == asked->now->of ? 0 : 2; }
#endif

struct event { dev device; unsigned long long type, data; unsigned instance, compute; };
ret nvmlEventSetCreate(dev *set) { *set = 77; return 0; }
ret nvmlDeviceRegisterEvents(dev d, unsigned long long kinds, dev set) {
    char s[512]; ret r = ask("nvmlDeviceRegisterEvents", d, s); return kinds == 8 && r == NOT_SUPPORTED ? 0 : r; }
ret nvmlEventSetWait_v2(dev set, struct event *out, unsigned wait) {
    static int given;
    char line[512];
    unsigned long device, xid;
    int number = 0;
    FILE *tape = fopen(getenv("NVML_TAPE"), "r");
    if (tape == NULL) return 9;
    while (fgets(line, sizeof line, tape))
        if (sscanf(line, "event %lu %lu", &device, &xid) == 2 && number++ == given) {
            given++; fclose(tape);
            memset(out, 0, sizeof *out); out->device = device; out->type = 8; out->data = xid;
            return 0; }
    fclose(tape);
    return TIMEOUT; }
