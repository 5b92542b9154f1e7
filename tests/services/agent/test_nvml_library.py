"""The real binding against a driver library built for this test: the calls we make are calls it has."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import msgspec
import pytest

from gangline_agent.nvml import Reading

SOURCE = r"""
#include <stdio.h>
#include <string.h>
typedef int ret; typedef long dev;
static int lost(dev d) { return d == 2 && fopen(LOST_FILE, "r") != NULL; }
ret nvmlInitWithFlags(unsigned f) { return 0; }
ret nvmlInit_v2(void) { return 0; }
ret nvmlShutdown(void) { return 0; }
ret nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
ret nvmlDeviceGetHandleByIndex_v2(unsigned i, dev *d) { *d = i + 1; return 0; }
ret nvmlDeviceGetUUID(dev d, char *s, unsigned n) { sprintf(s, "GPU-%ld", d); return 0; }
ret nvmlDeviceGetName(dev d, char *s, unsigned n) { strcpy(s, "NVIDIA A100-SXM4-40GB"); return 0; }
ret nvmlDeviceGetMemoryInfo(dev d, unsigned long long *m) { m[0] = 40ULL << 30; m[1] = 0; m[2] = 1 << 20; return 0; }
ret nvmlDeviceGetUtilizationRates(dev d, unsigned *u) { u[0] = 7; u[1] = 1; return lost(d) ? 15 : 0; }
ret nvmlDeviceGetTemperature(dev d, int s, unsigned *t) { *t = 33; return lost(d) ? 15 : 0; }
ret nvmlDeviceGetPciInfo_v3(dev d, void *p) { return lost(d) ? 15 : 0; }
ret nvmlDeviceGetClockInfo(dev d, int t, unsigned *c) { *c = t == 1 ? 1410 : 1593; return 0; }
ret nvmlDeviceGetTotalEccErrors(dev d, int t, int c, unsigned long long *n) { *n = t; return d == 2 ? 3 : 0; }
ret nvmlDeviceGetRemappedRows(dev d, unsigned *c, unsigned *u, unsigned *p, unsigned *f) {
  *c = 1; *u = 0; *p = 1; *f = 0; return 0; }
ret nvmlDeviceGetCurrentClocksThrottleReasons(dev d, unsigned long long *r) { *r = 0x48; return 0; }
ret nvmlDeviceGetNvLinkState(dev d, unsigned link, unsigned *up) { *up = link != 1; return link < 4 ? 0 : 2; }
ret nvmlEventSetCreate(dev *set) { *set = 7; return 0; }
ret nvmlDeviceRegisterEvents(dev d, unsigned long long kind, dev set) { return set == 7 && kind == 8 ? 0 : 2; }
typedef struct { dev device; unsigned long long type, data; unsigned gi, ci; } event;
ret nvmlEventSetWait_v2(dev set, event *e, unsigned t) {
  static int told;
  if (told || fopen(LOST_FILE, "r") == NULL) return 10;
  told = 1; e->device = 2; e->type = 8; e->data = 79; return 0; }
ret nvmlDeviceGetP2PStatus(dev a, dev b, int i, int *s) { *s = 0; return 0; }
"""
READ = "import msgspec; from gangline_agent.nvml import Nvml; print(msgspec.json.encode(Nvml().read()).decode())"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


async def run(*command: str, **environ: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environ}, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said


async def reading(folder: Path) -> Reading:
    return msgspec.json.decode(await run(sys.executable, "-c", READ, LD_LIBRARY_PATH=str(folder)), type=Reading)


async def test_the_binding_finds_what_we_ask_for_and_says_what_an_old_driver_lacks(tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    (tmp_path / "nvml.c").write_text(SOURCE)
    library = str(tmp_path / "libnvidia-ml.so.1")
    await run("cc", "-shared", "-fPIC", f'-DLOST_FILE="{lost}"', "-w", "-o", library, str(tmp_path / "nvml.c"))
    found = await reading(tmp_path)
    assert [(gpu.uuid, gpu.model, gpu.memory_mib, gpu.island) for gpu in found.gpus] == [
        ("GPU-1", "A100-SXM4-40GB", 40_960, 0),
        ("GPU-2", "A100-SXM4-40GB", 40_960, 0),
    ]
    sample = found.samples[0]
    assert (sample.utilisation_percent, sample.temperature_celsius, sample.memory_used_mib) == (7, 33, 1)
    assert sample.power_milliwatts is None  # this driver does not have the function
    assert (sample.clock_sm_mhz, sample.ecc_uncorrected) == (1410, 1)
    assert (sample.remap_pending, sample.nvlinks_down) == (True, 1)
    assert sample.throttled == ("hw_slowdown", "hw_thermal")
    assert {"pcie_replays", "processes", "energy_millijoules"} <= set(sample.absent)
    assert found.samples[1].ecc_uncorrected is None
    assert "ecc_uncorrected" in found.samples[1].absent
    assert sample.xids == ()
    lost.touch()
    first, second = (await reading(tmp_path)).samples
    assert first.problem == ""
    assert "lost" in second.problem.lower()
    assert second.utilisation_percent is None
    assert (first.xids, second.xids) == ((), (79,))
