"""Tapes for the stub of libnvidia-ml: cards with the numbers that NVIDIA publishes for them, and what befalls them."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from gangline_agent.senses import Reading

STUB = Path(__file__).with_name("nvml_stub.c")
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, NO_DRIVER, LOST, MISMATCH, UNKNOWN = 3, 4, 6, 9, 15, 18, 999
LOOK = """
import sys, msgspec
from gangline_agent.nvml import Nvml
nvml = Nvml()
for line in sys.stdin:
    print(msgspec.json.encode(nvml.read()).decode(), flush=True)
"""


def h100s(count: int = 8) -> list[str]:
    """A machine of SXM5 cards with 80 GB behind NVSwitches, in use."""
    lines = [
        "nvmlInit * 0",
        f"nvmlDeviceGetCount * 0 {count}",
        "nvmlSystemGetDriverVersion * 0 550.54.15",
        "nvmlSystemGetCudaDriverVersion * 0 12040",
        "nvmlDeviceGetName * 0 NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetMemoryInfo * 0 85520809984 42949672960",
        "nvmlDeviceGetUtilizationRates * 0 97 61",
        "nvmlDeviceGetEncoderUtilization * 0 0 167000",
        "nvmlDeviceGetDecoderUtilization * 0 3 167000",
        "nvmlDeviceGetTemperature:0 * 0 61",
        "nvmlDeviceGetPowerUsage * 0 612345",
        "nvmlDeviceGetEnforcedPowerLimit * 0 700000",
        "nvmlDeviceGetTotalEnergyConsumption * 0 123456789",
        "nvmlDeviceGetClockInfo:1 * 0 1980",
        "nvmlDeviceGetClockInfo:2 * 0 2619",
        "nvmlDeviceGetCurrentClocksEventReasons * 0 0",
        "nvmlDeviceGetTotalEccErrors * 0 5 0",
        "nvmlDeviceGetRemappedRows * 0 2 1 0 0",
        "nvmlDeviceGetGridLicensableFeatures_v4 * 0 1 1",
        "nvmlDeviceGetCurrPcieLinkGeneration * 0 5",
        "nvmlDeviceGetMaxPcieLinkGeneration * 0 5",
        "nvmlDeviceGetCurrPcieLinkWidth * 0 16",
        "nvmlDeviceGetMaxPcieLinkWidth * 0 16",
        "nvmlDeviceGetPcieReplayCounter * 0 7",
        "nvmlDeviceGetPcieThroughput:0 * 0 1200",
        "nvmlDeviceGetPcieThroughput:1 * 0 3400",
        "nvmlDeviceGetMigMode * 0 0 0",
        "nvmlDeviceGetNvLinkErrorCounter * 0 4 1 2",
        "nvmlDeviceGetNvLinkRemoteDeviceType * 0 2",
        "field:82 * 0 70",
        "field:90 * 0 26562",
        "field:138 * 0 9000",
        "field:139 * 0 8000",
        "nvmlGpmQueryDeviceSupport * 0 1",
        "gpm:1 * 0 98.5",
        "gpm:2 * 0 91.2",
        "gpm:3 * 0 44.8",
        "gpm:5 * 0 63.4",
        "gpm:10 * 0 37.1",
        "nvmlDeviceGetComputeRunningProcesses * 0 4242 42000000000 4294967295",
    ]
    lines += [f"nvmlDeviceGetNvLinkState:{link} * 0 1" for link in range(18)]
    for card in range(1, count + 1):
        lines.append(f"nvmlDeviceGetUUID {card} 0 GPU-h100-{card - 1}")
        lines.append(f"nvmlDeviceGetPciInfo {card} 0 0 {0x18 + 8 * card} 0")
        lines.append(f"nvmlDeviceGetMinorNumber {card} 0 {card - 1}")
    return lines


def v100_pair_of_pairs() -> list[str]:
    """Four cards of which each has two links to one neighbour and one to another, as in the hybrid cube mesh."""
    lines = [
        "nvmlInit * 0",
        "nvmlDeviceGetCount * 0 4",
        "nvmlDeviceGetName * 0 Tesla V100-SXM2-16GB",
        "nvmlDeviceGetMemoryInfo * 0 16945512448 0",
        "nvmlDeviceGetNvLinkRemoteDeviceType * 0 0",
        "nvmlDeviceGetNvLinkVersion:0 * 0 2",
        "nvmlDeviceGetMaxPcieLinkGeneration * 0 3",
        "nvmlDeviceGetMaxPcieLinkWidth * 0 16",
    ]
    ends = {1: (2, 2, 3), 2: (1, 1, 4), 3: (4, 4, 1), 4: (3, 3, 2)}
    for card, others in ends.items():
        lines += [f"nvmlDeviceGetUUID {card} 0 GPU-v100-{card - 1}", f"nvmlDeviceGetPciInfo {card} 0 0 {card} 0"]
        for link, other in enumerate(others):
            lines.append(f"nvmlDeviceGetNvLinkState:{link} {card} 0 1")
            lines.append(f"nvmlDeviceGetNvLinkRemotePciInfo:{link} {card} 0 0 {other} 0")
        for other in {1, 2, 3, 4} - {card, *others}:
            lines.append(f"nvmlDeviceGetTopologyCommonAncestor:{other} {card} 0 50")
    return lines


def mig_a100(*slices: tuple[int, str, int, int], may_see: bool = True) -> list[str]:
    """One card with 40 GB that is cut: (GPU instance, profile, start, size) of each slice."""
    lines = [
        "nvmlInit * 0",
        "nvmlDeviceGetCount * 0 1",
        "nvmlDeviceGetUUID 1 0 GPU-a100",
        "nvmlDeviceGetName * 0 NVIDIA A100-SXM4-40GB",
        "nvmlDeviceGetMemoryInfo * 0 42949672960 1073741824",
        "nvmlDeviceGetPciInfo * 0 0 7 0",
        "nvmlDeviceGetMigMode * 0 1 1",
        "nvmlDeviceGetPowerUsage * 0 280000",
        "nvmlDeviceGetMaxMigDeviceCount * 0 7",
    ]
    for number, (instance, profile, start, size) in enumerate(slices):
        device = 100 + number
        gigabytes = int(profile.partition("+")[0].rpartition(".")[2].removesuffix("gb"))
        lines += [
            f"nvmlDeviceGetUUID {device} 0 MIG-{instance}-{profile}",
            f"nvmlDeviceGetName {device} 0 NVIDIA A100-SXM4-40GB MIG {profile}",
            f"nvmlDeviceGetGpuInstanceId {device} 0 {instance}",
            f"nvmlDeviceGetMemoryInfo {device} 0 {gigabytes << 30} {(instance + 1) << 20}",
            f"nvmlGpuInstanceGetInfo {10_000 + instance} {0 if may_see else NO_PERMISSION} {start} {size}",
        ]
    return lines


def but(lines: Iterable[str], *others: str) -> list[str]:
    """The tape with these lines in place of those about the same function and card."""
    keys = {tuple(other.split()[:2]) for other in others}
    return [*(line for line in lines if tuple(line.split()[:2]) not in keys), *others]


def lost(lines: Iterable[str], card: int) -> list[str]:
    """The tape with one card that fell off the bus: whatever is asked of it, it is gone."""
    functions = {line.split()[0] for line in lines if line.startswith(("nvmlDevice", "field", "nvmlGpm", "gpm"))}
    keep = {"nvmlDeviceGetUUID", "nvmlDeviceGetCount"}
    return but(lines, *(f"{name} {card + 1} {LOST}" for name in sorted(functions - keep)), f"fields {card + 1} {LOST}")


class Player:
    """A process with the real binding on the stub."""

    def __init__(self, process: asyncio.subprocess.Process, tape: Path) -> None:
        """`process` looks once per line."""
        self._process = process
        self._tape = tape

    async def look(self, lines: Iterable[str]) -> Reading:
        """What an agent sees with this tape."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._tape.write_text("".join(f"{line}\n" for line in lines))
        self._process.stdin.write(b"\n")
        await self._process.stdin.drain()
        return msgspec.json.decode(await self._process.stdout.readline(), type=Reading)


@asynccontextmanager
async def player(folder: Path, *flags: str) -> AsyncIterator[Player]:
    """Compile the stub and start a process on it."""
    library = str(folder / "libnvidia-ml.so.1")
    compiler = await asyncio.create_subprocess_exec("cc", "-shared", "-fPIC", "-w", *flags, "-o", library, str(STUB))
    assert await compiler.wait() == 0
    tape = folder / "tape"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        LOOK,
        env={**os.environ, "LD_LIBRARY_PATH": str(folder), "NVML_TAPE": str(tape)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    try:
        yield Player(process, tape)
    finally:
        process.kill()
        await process.wait()
