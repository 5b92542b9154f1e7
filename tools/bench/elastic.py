"""Elastic jobs: Pollux's workloads under our goodput policy beside Tiresias, a resize, and what telemetry costs.

`python -m bench elastic` takes the eight workloads of load 1.0; BENCH_WORKLOADS="6" takes some of them.
"""

import os
import tarfile
import time
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.pollux_lab import by_goodput, by_service, mean_completion_s, read_jobs
from bench.resize import resize_ms
from bench.rows import Baseline, Measured
from bench.switch import switch_ms
from gangline_core.cluster import Gpu, Node
from gangline_core.facts import NodeSeen
from gangline_core.fold import Message, apply
from gangline_core.ids import NodeId
from gangline_core.state import State
from gangline_lab.sim.goodput import Application
from gangline_telemetry.config import Config
from gangline_telemetry.health import Watch
from gangline_wire.codec import decode, encode
from gangline_wire.samples import GpuSample, NodeSample, Samples

DATA = Path(__file__).parent / "pollux" / "pollux-osdi21.tar.gz"
WORKLOADS = tuple(range(1, 9))
PUBLISHED_TIRESIAS_6_S = 3469.69
"""What the paper's own simulator gives for Tiresias on workload 6."""
MEMBERS = 64
RESIZES = 20
AGENTS, GPUS_PER_AGENT, SECONDS = 1_000, 8, 30


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
    if 6 in theirs:
        published = Baseline(name="published", value=PUBLISHED_TIRESIAS_6_S)
        yield Measured(name="tiresias.workload_6", value=theirs[6], unit="s", better="lower", baseline=published)
    mean, other = (sum(values.values()) / len(values) for values in (ours, theirs))
    beside = Baseline(name="Tiresias here", value=other)
    yield Measured(name="pollux.mean", value=mean, unit="s mean JCT", better="lower", baseline=beside)
    yield Measured(name="pollux.ratio", value=mean / other, unit="of Tiresias", better="lower")


def telemetry() -> tuple[float, float]:
    """Cores that listening to a thousand agents takes, and MiB that memory grows while nothing new is heard."""
    state = State()
    for agent in range(AGENTS):
        gpus = tuple(Gpu(index=k, model="H100", memory_mib=81_920, uuid=f"{agent}-{k}") for k in range(GPUS_PER_AGENT))
        node = Node(id=NodeId(f"n{agent}"), agent=f"n{agent}", cpu_milli=64_000, memory_mib=1 << 20, gpus=gpus)
        fact = NodeSeen(node=node)
        apply(state, Message(seq=agent + 1, lane=f"agent.n{agent}", epoch=1, at=1, facts=(fact,), raw=b""))
    watch = Watch(Config(), 0.0)
    begun, grown = 0.0, 0
    for second in range(1, SECONDS + 11):
        messages = [_beat(agent, second) for agent in range(AGENTS)]
        if second == 11:
            begun = time.process_time()
        spent = time.process_time()
        for data in messages:
            for sample in decode(data, Samples).nodes:
                watch.hear(sample, float(second))
        watch.judge(state, float(second))
        grown += round((time.process_time() - spent) * 1e6) if second > 10 else 0
    assert begun
    return grown / 1e6 / SECONDS, _growth_mib(watch, state)


def _growth_mib(watch: Watch, state: State) -> float:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for second in range(SECONDS + 11, SECONDS + 21):
        for agent in range(AGENTS):
            for sample in decode(_beat(agent, second), Samples).nodes:
                watch.hear(sample, float(second))
        watch.judge(state, float(second))
        if second == SECONDS + 12:
            # Everything heard once has its place by now; from here on only more of the same comes.
            before, _ = tracemalloc.get_traced_memory()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return max(0.0, (after - before) / (1 << 20))


def _beat(agent: int, second: int) -> bytes:
    gpus = tuple(
        GpuSample(
            index=k,
            uuid=f"{agent}-{k}",
            model="H100",
            utilisation_percent=(agent + k + second) % 100,
            memory_used_mib=40_000 + second,
            memory_total_mib=81_920,
            temperature_celsius=60,
            power_milliwatts=500_000 + second,
            clock_sm_mhz=1_980,
            ecc_corrected=0,
            ecc_uncorrected=0,
        )
        for k in range(GPUS_PER_AGENT)
    )
    node = NodeSample(node=f"n{agent}", at=second * 1000, gpus=gpus, cpu_percent=30, memory_used_mib=100_000)
    return encode(Samples(agent=f"n{agent}", nodes=(node,)))
