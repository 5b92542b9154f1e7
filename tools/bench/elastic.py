"""Elastic jobs: Pollux's workloads under the whole scheduler beside Tiresias, a resize, and what telemetry costs.

`python -m bench elastic` plays the eight workloads of load 1.0 three times each: through the whole scheduler (rounds,
restarts and the log included), by our search for sizes alone, and under Tiresias. BENCH_WORKLOADS="6" takes some of the
workloads, and BENCH_WHOLE="6" (or "none") has only some of them decided by the whole scheduler.
"""

import os
import tarfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.pollux_lab import by_goodput, by_service, mean_completion_s, read_jobs
from bench.pollux_whole import Remembering, whole_mean_completion_s
from bench.resize import resize_ms
from bench.rows import Baseline, Measured
from bench.switch import switch_ms
from bench.telemetry_cost import telemetry
from gangline_lab.sim.goodput import Application

DATA = Path(__file__).parent / "pollux" / "pollux-osdi21.tar.gz"
WORKLOADS = tuple(range(1, 9))
PUBLISHED_TIRESIAS_6_S = 3469.69
"""What the paper's own simulator gives for Tiresias on workload 6."""
MEMBERS = 64
RESIZES = 20
PROCESSES = 2
NONE = "none"


def _chosen(name: str) -> list[int]:
    """Workloads that an environment variable names; all of them where it is not set."""
    words = os.environ.get(name, "").split()
    return [] if words == [NONE] else [int(word) for word in words] or list(WORKLOADS)


async def measure() -> AsyncIterator[Measured]:
    """All rows."""
    times = sorted(resize_ms(MEMBERS) for _ in range(RESIZES))
    yield Measured(name="resize.64.p50", value=times[len(times) // 2], unit="ms CPU", better="lower")
    yield Measured(name="resize.64.max", value=times[-1], unit="ms CPU", better="lower")
    switches = await switch_ms()
    yield Measured(name="switch.p50", value=switches[len(switches) // 2], unit="ms", better="lower")
    yield Measured(name="switch.max", value=switches[-1], unit="ms", better="lower")
    cores, grown_mib = telemetry()
    yield Measured(name="telemetry.1000_agents", value=cores, unit="cores", better="lower")
    yield Measured(name="telemetry.growth", value=grown_mib, unit="MiB", better="lower")
    chosen = _chosen("BENCH_WORKLOADS")
    whole = [number for number in _chosen("BENCH_WHOLE") if number in chosen]
    with TemporaryDirectory() as folder:
        unpack(Path(folder))
        processes = min(PROCESSES, os.cpu_count() or 1)
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for row in _pollux(pool, Path(folder), chosen, whole):
                yield row


def unpack(folder: Path) -> None:
    """The workloads and profiles, as files of a folder; early patch releases of Python 3.11 know no filters."""
    with tarfile.open(DATA) as packed:
        for member in packed:
            content = packed.extractfile(member)
            if content is not None:
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())


def _pollux(pool: Executor, folder: Path, chosen: list[int], whole: list[int]) -> Iterator[Measured]:
    """The rows of the workloads; the long runs begin first."""
    wholes = {number: pool.submit(whole_s, folder, number) for number in whole}
    theirs_s = {number: pool.submit(tiresias_s, folder, number) for number in chosen}
    searches = {number: pool.submit(search_s, folder, number) for number in chosen}
    theirs = {number: future.result() for number, future in theirs_s.items()}
    yield from _against("pollux", searches, theirs)
    yield from _against("whole", wholes, theirs)
    if 6 in theirs:
        published = Baseline(name="published", value=PUBLISHED_TIRESIAS_6_S)
        yield Measured(name="tiresias.workload_6", value=theirs[6], unit="s", better="lower", baseline=published)


def _against(what: str, runs: dict[int, Future[float]], theirs: dict[int, float]) -> Iterator[Measured]:
    """Each workload beside Tiresias, and their means."""
    ours: dict[int, float] = {}
    unit = "s mean JCT"
    for number, future in runs.items():
        ours[number] = future.result()
        beside = Baseline(name="Tiresias here", value=theirs[number])
        name = f"{what}.workload_{number}"
        yield Measured(name=name, value=ours[number], unit=unit, better="lower", baseline=beside)
    if ours:
        mean = sum(ours.values()) / len(ours)
        other = sum(theirs[number] for number in ours) / len(ours)
        beside = Baseline(name="Tiresias here", value=other)
        yield Measured(name=f"{what}.mean", value=mean, unit=unit, better="lower", baseline=beside)
        yield Measured(name=f"{what}.ratio", value=mean / other, unit="of Tiresias", better="lower")


def tiresias_s(folder: Path, number: int) -> float:
    """Mean completion time under Tiresias."""
    return mean_completion_s(read_jobs(_workload(folder, number), _profiles(folder)), by_service, adapts=False)


def search_s(folder: Path, number: int) -> float:
    """Mean completion time under our search for sizes, in the paper's model of a cluster."""
    return mean_completion_s(read_jobs(_workload(folder, number), _profiles(folder)), by_goodput, adapts=True)


def whole_s(folder: Path, number: int) -> float:
    """Mean completion time under the whole scheduler with its default policy."""
    return whole_mean_completion_s(_workload(folder, number), _profiles(folder))


def _workload(folder: Path, number: int) -> Path:
    return folder / "workloads" / f"workload-{number}.csv"


def _profiles(folder: Path) -> dict[str, Application]:
    return {path.name: Remembering(path) for path in sorted((folder / "profiles").iterdir())}
