"""Elastic jobs: Pollux's workloads under our goodput policy beside Tiresias, a resize, and what telemetry costs.

`python -m bench elastic` takes the eight workloads of load 1.0; BENCH_WORKLOADS="6" takes some of them, and
BENCH_WHOLE="6" has some of them decided by the whole scheduler as well: rounds, restarts and the log included.
"""

import os
import tarfile
from collections.abc import AsyncIterator
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
    wanted = os.environ.get("BENCH_WORKLOADS", "").split()
    chosen = [int(number) for number in wanted] or list(WORKLOADS)
    ours, theirs = {}, {}
    with TemporaryDirectory() as folder, tarfile.open(DATA) as packed:
        packed.extractall(folder, filter="data")
        applications = {path.name: Application(path) for path in sorted((Path(folder) / "profiles").iterdir())}
        for number in chosen:
            path = Path(folder) / "workloads" / f"workload-{number}.csv"
            theirs[number] = mean_completion_s(read_jobs(path, applications), by_service, adapts=False)
            ours[number] = mean_completion_s(read_jobs(path, applications), by_goodput, adapts=True)
            beside = Baseline(name="Tiresias here", value=theirs[number])
            row = f"pollux.workload_{number}"
            yield Measured(name=row, value=ours[number], unit="s mean JCT", better="lower", baseline=beside)
        for number in map(int, os.environ.get("BENCH_WHOLE", "").split()):
            path = Path(folder) / "workloads" / f"workload-{number}.csv"
            remembering: dict[str, Application] = {
                name: Remembering(Path(folder) / "profiles" / name) for name in applications
            }
            mean_s = whole_mean_completion_s(path, remembering)
            other = Baseline(name="Tiresias here", value=theirs[number]) if number in theirs else None
            row = f"whole.workload_{number}"
            yield Measured(name=row, value=mean_s, unit="s mean JCT", better="lower", baseline=other)
    if 6 in theirs:
        published = Baseline(name="published", value=PUBLISHED_TIRESIAS_6_S)
        yield Measured(name="tiresias.workload_6", value=theirs[6], unit="s", better="lower", baseline=published)
    mean, beside_mean = (sum(values.values()) / len(values) for values in (ours, theirs))
    beside = Baseline(name="Tiresias here", value=beside_mean)
    yield Measured(name="pollux.mean", value=mean, unit="s mean JCT", better="lower", baseline=beside)
    yield Measured(name="pollux.ratio", value=mean / beside_mean, unit="of Tiresias", better="lower")
