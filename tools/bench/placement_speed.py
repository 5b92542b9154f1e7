"""How fast the pure core places and refuses, on one core: no bus, no disk, CPU time only.

Sizes are chosen so that all rows together take about a minute. The figures of other systems stand beside ours as
context only: theirs are of whole clusters with an API server, ours are of the deciding alone.
"""

import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from msgspec.structs import replace

from bench.decisions import BEGIN_MS, GPUS, POOL, Log, machine
from bench.rows import Baseline, Measured
from gangline_core.cycle import decide_round, open_round
from gangline_core.facts import JobAdmitted, NodeSeen, PolicySet, RoundDecided
from gangline_core.ids import JobId
from gangline_core.spec import JobSpec, Resources, Role, TopologyWish
from gangline_core.telling.shortfall import shortfall
from gangline_kit.loop import calm_collector

BLOCK_NODES = 128
SINGLES = 2_000
SHAPES = 1_000
BLOCK_LABEL = "topology.gangline.dev/block"
KUBE_SCHEDULER = Baseline("kube-scheduler at 5,000 nodes, pods/s (scheduler_perf gate)", 680)
KUBE_GANG = Baseline("kube-scheduler gang of 3 at 5,000 nodes, ms (scheduler_perf)", 3.7)
KAI = Baseline("KAI at 500 nodes, one-GPU jobs/s (nightly board)", 10)
KUEUE = Baseline("Kueue topology at 640 nodes, workloads/s (gate)", 37)


def speed_rows() -> Iterator[Measured]:
    """Every row, smallest cluster first."""
    calm_collector()  # as every service of ours does
    singles_per_second(8)  # loads what is loaded lazily
    per_second: dict[int, float] = {}
    beside = {100: KUEUE, 1_000: KAI, 5_000: KUBE_SCHEDULER, 10_000: None}
    for nodes, baseline in beside.items():
        per_second[nodes] = singles_per_second(nodes, placement="best_fit")
        yield Measured(f"speed.singles.{nodes}_nodes", per_second[nodes], "decisions/s", baseline=baseline)
    growth = per_second[100] / per_second[10_000]
    yield Measured("speed.singles.cost_at_100x_nodes", growth, "x", better="lower")
    for nodes in (1_000, 5_000):
        yield Measured(f"speed.singles.default_placer.{nodes}_nodes", singles_per_second(nodes), "decisions/s")
    yield Measured("speed.gang_64x8_in_a_block", gang_ms(5_000), "ms", better="lower", baseline=KUBE_GANG)
    yield Measured("speed.cannot_80_gpus_at_500_full_nodes", cannot_ms(500), "ms", better="lower")
    yield Measured("speed.round_of_1000_shapes_on_a_full_cluster", shapes_ms(512, SHAPES), "ms", better="lower")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        mebibytes = pool.submit(memory_mib, 10_000, 50_000).result()
    yield Measured("speed.memory.10000_nodes_50000_tasks", mebibytes, "MiB", better="lower")


def singles_per_second(nodes: int, *, placement: str = "") -> float:
    """One-GPU jobs decided per second, with opening the round and folding both facts."""
    log = cluster(nodes, placement=placement)
    log.append("admission", *(admitted(k + 1, gpus=1) for k in range(min(SINGLES, nodes * GPUS))))
    spent, decided = 0.0, 0
    while True:
        begun = time.process_time()
        decision = held_round(log)
        spent += time.process_time() - begun
        if decision is None or not decision.placements:
            return decided / spent
        decided += len(decision.placements)


def gang_ms(nodes: int) -> float:
    """A gang of 64 tasks with 8 GPUs each, required to stand inside one block; the best of three such gangs."""
    took = []
    log = cluster(nodes)
    for number in range(3):
        wish = TopologyWish(required="block")
        log.append("admission", admitted(number + 1, gpus=8, tasks=64, topology=wish))
        opened = open_round(log.state, POOL, BEGIN_MS + log.seq)
        assert opened is not None
        log.append(f"queue.{POOL}", opened)
        begun = time.process_time()
        decided = decide_round(log.state, POOL, BEGIN_MS + log.seq)
        took.append((time.process_time() - begun) * 1_000)
        assert decided.placements
        log.append(f"placement.{POOL}", decided)
    return min(took)


def cannot_ms(nodes: int) -> float:
    """Refusing an 80-GPU gang on a full cluster, with everything that is said about it."""
    log = cluster(nodes)
    fill(log, nodes)
    log.append("admission", admitted(nodes + 1, gpus=8, tasks=10))

    def refuse() -> None:
        held_round(log)
        shortfall(log.state, log.state.kept.jobs[JobId(nodes + 1)], BEGIN_MS + log.seq)

    return cpu_ms(refuse)


def shapes_ms(nodes: int, waiting: int) -> float:
    """One round over waiting jobs that all ask for something else, on a full cluster."""
    log = cluster(nodes)
    fill(log, nodes)
    log.append("admission", *(admitted(nodes + 1 + k, gpus=1 + k % 8, cpu_milli=1_000 + k) for k in range(waiting)))
    return cpu_ms(lambda: held_round(log))


def memory_mib(nodes: int, tasks: int) -> float:
    """Most memory of a process that holds so many nodes and running tasks, with its room."""
    log = cluster(nodes, placement="best_fit")
    # Larger rounds only make the filling quicker.
    policy = replace(log.state.kept.pools[POOL].policy, candidates_per_shape=1_000)
    log.append("admission", PolicySet(pool=POOL, policy=policy, by="bench"))
    log.append("admission", *(admitted(k + 1, gpus=1) for k in range(tasks)))
    while (decided := held_round(log)) is not None and decided.placements:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- builders ---------------------------------------------------------------------------------------------------


def cluster(nodes: int, *, placement: str = "") -> Log:
    """Machines of eight GPUs in blocks, with their room worked out, so that only decisions are measured."""
    log = Log()
    for k in range(nodes):
        node = replace(machine(k), labels={BLOCK_LABEL: f"block-{k // BLOCK_NODES:03d}"})
        log.append("agent.bench", NodeSeen(node=node))
    if placement:
        policy = replace(log.state.kept.pools[POOL].policy, placement=placement)
        log.append("admission", PolicySet(pool=POOL, policy=policy, by="bench"))
    log.state.room(POOL)
    return log


def fill(log: Log, nodes: int) -> None:
    """Every GPU is taken."""
    log.append("admission", *(admitted(k + 1, gpus=GPUS) for k in range(nodes)))
    while (decided := held_round(log)) is not None and decided.placements:
        pass
    log.state.room(POOL)


def held_round(log: Log) -> RoundDecided | None:
    """One round, opened, decided and folded; None when there is nothing to decide."""
    opened = open_round(log.state, POOL, BEGIN_MS + log.seq)
    if opened is None:
        return None
    log.append(f"queue.{POOL}", opened)
    decided = decide_round(log.state, POOL, BEGIN_MS + log.seq)
    log.append(f"placement.{POOL}", decided)
    return decided


def admitted(
    job: int, *, gpus: int, tasks: int = 1, cpu_milli: int = 4_000, topology: TopologyWish | None = None
) -> JobAdmitted:
    """A job of equal tasks."""
    need = Resources(gpu_milli=gpus * 1_000, cpu_milli=cpu_milli, memory_mib=16_384)
    role = Role(name="worker", count=tasks, min_count=tasks, max_count=tasks, resources=need, command=("train",))
    wish = topology or TopologyWish()
    spec = JobSpec(name=f"job-{job}", group="", user="bench", roles=(role,), topology=wish)
    return JobAdmitted(job=JobId(job), spec=spec, submit_id=f"bench-{job}", by="bench")


def cpu_ms(act: Callable[[], object]) -> float:
    """CPU time of an act in ms."""
    begun = time.process_time()
    act()
    return (time.process_time() - begun) * 1_000
