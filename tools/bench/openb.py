"""The FGD experiment: pods of a public trace arrive in random order until 130 % of all GPUs were asked for.

Nobody leaves, and who fits nowhere is dropped. Reported is the share of all GPU thousandths that is given out at last.
Source: Weng et al., USENIX ATC 2023, section 6; the data and its licence are in tools/bench/data/README.md.
"""

import csv
import gzip
import io
import random
import statistics
import time
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

from msgspec import Struct

from bench.published import RIVALS
from gangline_core.cluster import Gpu, Node, NodeUse
from gangline_core.ids import NodeId
from gangline_core.placement import PLACERS, Placer, placer_for
from gangline_core.placement.gang import Gang, Need
from gangline_core.placement.usefulness import Usefulness
from gangline_core.room.beside import Beside
from gangline_core.room.capacity import Room
from gangline_core.room.mix import Mix, Typical, mix_of
from gangline_core.spec import GPU_MILLI
from gangline_lab.openb import MODELS, read_machines

DATA = Path(__file__).parent / "data"
LISTS = ("default", "cpu100", "cpu250", "gpushare40", "gpushare100", "gpuspec33", "multigpu20", "multigpu50")
SEEDS = tuple(range(101, 111))
"""Not those on which the default was chosen (42 to 51)."""
DEMAND_PERCENT = 130
MARKS_PERCENT = (50, 80, 100, 130)
CARD_MIB = 16_384
"""The trace does not tell the memory of cards; shares are by thousandths alone."""


class Pod(Struct, frozen=True):
    """What one pod asks for."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    milli: int
    models: str

    @property
    def wanted_milli(self) -> int:
        """Thousandths over all its GPUs."""
        return self.gpus * self.milli


class Published(Struct, frozen=True):
    """What the study reports for one list and policy, in per cent."""

    mean: float
    least: float
    most: float


class Outcome(Struct, frozen=True):
    """One run: what was given out and what was fragment, in per cent of all GPUs, at each mark of demand."""

    allocated: dict[int, float]
    fragment: dict[int, float]
    decisions: int
    cpu_s: float


@lru_cache
def pods(name: str) -> tuple[Pod, ...]:
    """All pods of a list, in a fixed order."""
    text = gzip.decompress((DATA / "openb_pods.csv.gz").read_bytes()).decode()
    found: list[Pod] = []
    for row in csv.DictReader(io.StringIO(text)):
        if row["list"] == name:
            cpu, memory, gpus, milli = (int(row[key]) for key in ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"))
            found += [Pod(cpu, memory, gpus, milli, row["gpu_spec"])] * int(row["count"])
    return tuple(found)


@lru_cache
def published() -> dict[tuple[str, str], Published]:
    """The study's own figures by list and policy."""
    with (DATA / "openb_published.csv").open(encoding="utf-8") as file:
        return {
            (row["list"], row["policy"]): Published(float(row["mean"]), float(row["least"]), float(row["most"]))
            for row in csv.DictReader(file)
        }


def arrivals(name: str, *, seed: int, capacity: int) -> list[Pod]:
    """The list's pods in random order, re-drawn or thinned out until they ask for 130 % of all GPUs."""
    chance = random.Random(seed)
    known = pods(name)
    chosen = list(known)
    most = capacity * DEMAND_PERCENT // 100
    wanted = sum(pod.wanted_milli for pod in chosen)
    while wanted > most:
        wanted -= chosen.pop(chance.randrange(len(chosen))).wanted_milli
    while wanted + (pod := chance.choice(known)).wanted_milli <= most:
        chosen.append(pod)
        wanted += pod.wanted_milli
    chance.shuffle(chosen)
    return chosen


def typical(name: str) -> Mix:
    """The list's usual tasks: the most frequent until 95 % are covered."""
    return mix_of(
        Typical(cpu_milli=pod.cpu_milli, gpus=pod.gpus, milli=pod.milli, exclude_models=others(pod))
        for pod in pods(name)
    )


def others(pod: Pod) -> tuple[str, ...]:
    """Models that will not do: the trace names sets of models without preference."""
    named = set(pod.models.split("|")) if pod.models else MODELS
    return tuple(sorted(model.lower() for model in MODELS - named)) if pod.gpus else ()


def machines(seed: int, *, every: int = 1) -> Room:
    """The empty cluster, its nodes' names in an order drawn from the seed; or one machine of `every` so many."""
    listed = list(read_machines())[::every]
    random.Random(seed).shuffle(listed)
    nodes = [
        Node(
            id=NodeId(f"n{index:05d}"),
            agent="bench",
            cpu_milli=machine.cpu_milli,
            memory_mib=machine.memory_mib,
            gpus=tuple(Gpu(index=k, model=machine.model, memory_mib=CARD_MIB) for k in range(machine.gpus)),
        )
        for index, machine in enumerate(listed)
    ]
    room = Room.of(nodes)
    for node in nodes:
        room.refresh(node, NodeUse(len(node.gpus)))
    return room


def gang_of_pod(pod: Pod) -> Gang:
    """The pod as a gang of one task."""
    is_share = 0 < pod.milli < GPU_MILLI
    need = Need(
        role="pod",
        count=1,
        gpus=0 if is_share else pod.gpus,
        milli=pod.milli if is_share else 0,
        gpu_memory_mib=0,
        models=(),
        cpu_milli=pod.cpu_milli,
        memory_mib=pod.memory_mib,
        devices={},
        exclude_models=others(pod),
    )
    return Gang(needs=(need,), selector={}, tolerations=(), required="", preferred="", levels=())


def placer_of(policy: str, name: str, seed: int) -> Placer:
    """A policy of ours by its name, or a rival of the study."""
    return placer_for(policy, Beside(mix=typical(name))) if policy in PLACERS else RIVALS[policy](seed)


def inflate(name: str, policy: str, seed: int, *, is_marked: bool = False) -> Outcome:
    """One run of the experiment; fragments are measured only when `is_marked`, since that takes time."""
    room = machines(seed)
    capacity = int(room.milli.sum())
    place = placer_of(policy, name, seed)
    usefulness = Usefulness(room.layout.kinds, typical(name), by_tasks=False)
    asked: dict[Pod, Gang] = {}
    allocated: dict[int, float] = {}
    fragment: dict[int, float] = {}
    wanted = given = 0
    coming = arrivals(name, seed=seed, capacity=capacity)
    begun = time.process_time()
    for pod in coming:
        gang = asked.get(pod) or asked.setdefault(pod, gang_of_pod(pod))
        seats = place(room, gang)
        wanted += pod.wanted_milli
        if seats is not None:
            given += pod.wanted_milli
            for task in seats.tasks:
                room.take(task)
        for mark in MARKS_PERCENT:
            if mark not in allocated and wanted * 100 >= mark * capacity - 100 * GPU_MILLI * 8:
                allocated[mark] = 100 * given / capacity
                if is_marked:
                    fragment[mark] = 100 * usefulness.fragment(room) / capacity
    spent = time.process_time() - begun
    allocated[DEMAND_PERCENT] = 100 * given / capacity
    if is_marked:
        fragment[DEMAND_PERCENT] = 100 * usefulness.fragment(room) / capacity
    return Outcome(allocated=allocated, fragment=fragment, decisions=len(coming), cpu_s=spent)


def mean_at_end(runs: list[Outcome]) -> float:
    """Mean share given out when all pods have come."""
    return statistics.mean(run.allocated[DEMAND_PERCENT] for run in runs)


Job = Callable[[], Outcome]


def job(name: str, policy: str, seed: int) -> Job:
    """One run, to be made in another process."""
    return partial(inflate, name, policy, seed, is_marked=name == "default")


__all__ = ["LISTS", "SEEDS", "Outcome", "inflate", "job", "mean_at_end", "published"]
