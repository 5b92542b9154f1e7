"""What it costs to listen to a thousand machines that say everything every second: cores, and memory that grows.

Part of `make bench NAME=elastic`. All of the service but the bus: decoding, health, use, stragglers, hangs, black
holes, and the text of /metrics for 8,000 GPUs every 15 seconds. Every GPU is held by a member with a heartbeat.
"""

import time
import tracemalloc

from gangline_core.cluster import Gpu, Node
from gangline_core.facts import Fact, JobAdmitted, NodeSeen, Placement, RoundDecided, TaskPlacement, TaskStarted
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId, NodeId, TaskId, task_id
from gangline_core.job import GpuShare
from gangline_core.spec import JobSpec, Resources, Role
from gangline_core.state import State
from gangline_telemetry.config import Config
from gangline_telemetry.gauges import text
from gangline_telemetry.health import Watch
from gangline_telemetry.progress import Stories
from gangline_telemetry.starts import Starts
from gangline_telemetry.stragglers import STEPS_KEPT, Stragglers
from gangline_wire.codec import decode, encode
from gangline_wire.samples import DiskSample, GpuSample, NicSample, NodeSample, Samples, TaskSample

AGENTS = 1_000
GPUS_PER_AGENT = 8
SECONDS = 15
WARM_S = 10
SCRAPE_S = 15


class Listening:
    """The service's parts on one state."""

    def __init__(self, state: State) -> None:
        """Nothing heard yet."""
        config = Config()
        self.state, self.config = state, config
        self.watch, self.starts, self.stories = Watch(config, 0.0), Starts(config), Stories()
        self.stragglers = Stragglers(config)

    def second(self, messages: list[bytes], now_s: float) -> None:
        """One second of the service's life."""
        for data in messages:
            samples = decode(data, Samples)
            for sample in samples.nodes:
                self.watch.hear(sample, now_s, self.state)
            self.stories.hear(samples, self.state, now_s)
            self.stragglers.hear(samples, self.state, now_s)
        if self.watch.busy.is_due(now_s):
            self.stories.compare(self.state, self.watch.busy, now_s)
        self.watch.judge(self.state, now_s)
        self.starts.judge(self.state, int(now_s * 1000))
        self.stories.judge(self.state, now_s)
        self.stragglers.judge(self.state, now_s)
        if now_s % SCRAPE_S == 0:
            text(self.watch, self.state, now_s, most=self.config.metrics_gpus_max)


def telemetry() -> tuple[float, float]:
    """Cores that listening takes, and MiB by which memory grows while nothing new is heard."""
    listening = Listening(_cluster())
    spent = 0.0
    for second in range(1, WARM_S + SECONDS + 1):
        messages = [_beat(agent, second) for agent in range(AGENTS)]
        begun = time.process_time()
        listening.second(messages, float(second))
        spent += time.process_time() - begun if second > WARM_S else 0.0
    return spent / SECONDS, _growth_mib(listening, WARM_S + SECONDS + 1)


def _growth_mib(listening: Listening, first: int) -> float:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    settled = first + STEPS_KEPT + 1
    for second in range(first, settled + 10):
        listening.second([_beat(agent, second) for agent in range(AGENTS)], float(second))
        if second == settled:
            # Everything that is remembered was heard while memory is watched; from here on only more of the same comes.
            before, _ = tracemalloc.get_traced_memory()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return max(0.0, (after - before) / (1 << 20))


def _cluster() -> State:
    """A thousand machines, on each of them a gang of eight members with a GPU each."""
    state, seq = State(), 0

    def tell(lane: str, *facts: Fact) -> None:
        nonlocal seq
        seq += 1
        apply(state, Message(seq=seq, lane=lane, epoch=1, at=1, facts=facts, raw=b""))

    need = Resources(gpu_milli=1000, cpu_milli=1000, memory_mib=1000)
    role = Role(name="worker", count=GPUS_PER_AGENT, min_count=GPUS_PER_AGENT, max_count=GPUS_PER_AGENT, resources=need)
    for agent in range(AGENTS):
        name, job = NodeId(f"n{agent}"), JobId(agent + 1)
        gpus = tuple(Gpu(index=k, model="H100", memory_mib=81_920, uuid=f"{agent}-{k}") for k in range(GPUS_PER_AGENT))
        tell(f"agent.{name}", NodeSeen(node=Node(id=name, agent=name, cpu_milli=64_000, memory_mib=1 << 20, gpus=gpus)))
        spec = JobSpec(name=f"job-{job}", group="", user="bench", roles=(role,))
        tell("admission", JobAdmitted(job=job, spec=spec, submit_id=f"s{job}", by="bench"))
        places = tuple(
            TaskPlacement(
                role="worker",
                index=k,
                node=name,
                gpus=(GpuShare(index=k, milli=1000, memory_mib=0),),
                cpu_milli=1000,
                memory_mib=1000,
            )
            for k in range(GPUS_PER_AGENT)
        )
        placement = Placement(job=job, attempt=1, tasks=places, port=29_500)
        tell("placement.default", RoundDecided(pool="default", round=0, placements=(placement,)))
        tell(f"agent.{name}", *(TaskStarted(task=_task(agent, k)) for k in range(GPUS_PER_AGENT)))
    assert len(state.kept.tasks) == AGENTS * GPUS_PER_AGENT
    return state


def _task(agent: int, k: int) -> TaskId:
    return task_id(JobId(agent + 1), attempt=1, role="worker", index=k)


def _beat(agent: int, second: int) -> bytes:
    """All that an agent of a machine with eight large cards says in one second."""
    gpus = tuple(_card(agent, k, second) for k in range(GPUS_PER_AGENT))
    tasks = tuple(
        TaskSample(task=_task(agent, k), cpu_milli=900 + second, memory_mib=20_000) for k in range(GPUS_PER_AGENT)
    )
    node = NodeSample(
        node=f"n{agent}",
        at=second * 1000,
        gpus=gpus,
        cpu_percent=30,
        memory_used_mib=100_000,
        memory_total_mib=1 << 20,
        swap_used_mib=0,
        load_percent=30,
        nics=tuple(
            NicSample(name=f"eth{k}", rx_kib_s=second, tx_kib_s=5, speed_mbps=100_000, errors=0) for k in range(2)
        ),
        disks=(DiskSample(name="nvme0n1", read_kib_s=second, write_kib_s=7, busy_percent=3),),
        disk_free_mib=900_000,
        disk_total_mib=1_000_000,
        tasks=tasks,
    )
    beats: dict[str, int] = {_task(agent, k): 1000 * second for k in range(GPUS_PER_AGENT)}
    return encode(Samples(agent=f"n{agent}", nodes=(node,), beats=beats))


def _card(agent: int, k: int, second: int) -> GpuSample:
    return GpuSample(
        index=k,
        uuid=f"{agent}-{k}",
        model="H100",
        utilisation_percent=(agent + k + second) % 100,
        memory_used_mib=40_000 + second,
        memory_total_mib=81_920,
        temperature_celsius=60,
        power_milliwatts=500_000 + second,
        memory_busy_percent=30,
        clock_sm_mhz=1_980,
        clock_memory_mhz=2_619,
        energy_millijoules=10**9 + second,
        ecc_corrected=0,
        ecc_uncorrected=0,
        remapped_corrected=0,
        remapped_uncorrected=0,
        remap_pending=False,
        remap_failed=False,
        nvlinks_down=0,
        nvlinks_up=18,
        nvlink_errors=0,
        nvlink_rx_kib=10**6 * second,
        nvlink_tx_kib=10**6 * second,
        pcie_gen=5,
        pcie_width=16,
        pcie_width_max=16,
        pcie_replays=0,
        pcie_rx_kib_s=1000,
        pcie_tx_kib_s=1000,
        sm_active_percent=80,
        sm_occupancy_percent=40,
        tensor_active_percent=50,
        dram_active_percent=40,
        engine_active_percent=90,
        encoder_percent=0,
        decoder_percent=0,
        temperature_memory_celsius=70,
        power_limit_milliwatts=700_000,
        processes=((4_000 + k, 40_000),),
        tasks=(_task(agent, k),),
    )
