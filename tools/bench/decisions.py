"""How many jobs per second the scheduling cycle decides, alone: no bus, no disk, one core."""

import time

from gangline_core.cluster import Gpu, Node
from gangline_core.cycle import decide_round, open_round
from gangline_core.facts import Fact, JobAdmitted, NodeSeen
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId, NodeId
from gangline_core.spec import JobSpec, Resources, Role
from gangline_core.state import State

POOL = "default"
GPUS = 8
BEGIN_MS = 1_700_000_000_000


class Log:
    """A state that grows by facts, as if a log stood behind it."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.state = State()
        self.seq = 0

    def append(self, lane: str, *facts: Fact) -> None:
        """One message."""
        self.seq += 1
        apply(self.state, Message(seq=self.seq, lane=lane, epoch=1, at=BEGIN_MS + self.seq, facts=facts, raw=b"x"))


def decisions_per_second(nodes: int) -> float:
    """Jobs placed or refused per second of deciding, when half as many GPUs again are asked for as there are."""
    log = Log()
    for index in range(nodes):
        log.append("agent.bench", NodeSeen(node=machine(index)))
    wanted = nodes * GPUS * 3 // 2
    log.append("admission", *(admitted(JobId(index + 1)) for index in range(wanted)))
    decided = 0
    spent = 0.0
    while True:
        begun = time.perf_counter()
        opened = open_round(log.state, POOL, BEGIN_MS + log.seq)
        spent += time.perf_counter() - begun
        if opened is None:
            break
        log.append(f"queue.{POOL}", opened)
        begun = time.perf_counter()
        round_decided = decide_round(log.state, POOL, BEGIN_MS + log.seq)
        spent += time.perf_counter() - begun
        log.append(f"placement.{POOL}", round_decided)
        refused = sum(len(refusal.jobs) for refusal in round_decided.refusals)
        decided += len(round_decided.placements) + refused
        if not round_decided.placements:
            break
    return decided / spent


def machine(index: int) -> Node:
    """One simulated machine with eight GPUs."""
    gpus = tuple(Gpu(index=gpu, model="V100", memory_mib=32_768) for gpu in range(GPUS))
    return Node(id=NodeId(f"n{index:05d}"), agent="bench", cpu_milli=96_000, memory_mib=786_432, gpus=gpus)


def admitted(job: JobId) -> JobAdmitted:
    """A job of one GPU."""
    need = Resources(gpu_milli=1000, cpu_milli=4_000, memory_mib=32_768)
    role = Role(name="worker", count=1, min_count=1, max_count=1, resources=need, command=("train",))
    spec = JobSpec(name=f"job-{job}", group="", user="bench", roles=(role,))
    return JobAdmitted(job=job, spec=spec, submit_id=f"bench-{job}", by="bench")
