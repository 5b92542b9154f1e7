"""Several schedulers of one pool beside each other: partitions in rotation against everything at once, same period.

The deciding core as it runs in production, with rounds as turns: conflicts at commit, how much of what is free lies on
whole nodes (what bad places cost), and how many gangs the leader had to place after all.
"""

import random

import msgspec
from msgspec import Struct

from gangline_core import cycle, parsync
from gangline_core import facts as f
from gangline_core.cluster import Gpu, Node, Policy
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.parsync import Preference, Sync
from gangline_core.spec import JobSpec, Resources, Role
from gangline_core.state import State

NODES = 64
GPUS = 8
SCHEDULERS = 8
PARTITIONS = 8
"""A period has as many turns."""
TURNS = 60
JOBS_PER_TURN = 16
GPUS_ASKED = (1, 1, 2, 4)
TURNS_HELD = (6, 18)
POOL = "default"
TURN_MS = 1000


class Result(Struct, frozen=True):
    """One simulation."""

    conflict_percent: float
    quality: float
    """Free GPUs that lie on wholly free nodes, in per cent of all free ones, at the end of each turn."""
    left_percent: float
    """Gangs that the leader placed because no scheduler did."""


class Run:
    """A log, its state, and the jobs of a seed."""

    def __init__(self, preference: Preference, sync: Sync, seed: int) -> None:
        """All nodes are empty; all chance comes from the seed."""
        self.state = State()
        self.chance = random.Random(seed)
        self.at = 0
        policy = Policy(
            ordering="fifo",
            placement="best_fit",
            schedulers=SCHEDULERS,
            scheduler_preference=preference,
            scheduler_sync=sync,
            scheduler_partitions=PARTITIONS,
            scheduler_delay_s=1,
        )
        self.tell("admission", f.PolicySet(pool=POOL, policy=policy, by="bench"))
        cards = tuple(Gpu(index=k, model="H100", memory_mib=81_920) for k in range(GPUS))
        nodes = [
            Node(id=NodeId(f"n{k:03}"), agent="bench", cpu_milli=128_000, memory_mib=1_048_576, gpus=cards)
            for k in range(NODES)
        ]
        self.tell("agent.bench", *(f.NodeSeen(node=node) for node in nodes))

    def tell(self, lane: str, *facts: f.Fact) -> None:
        """Append and fold."""
        seq = self.state.kept.seq + 1
        raw = msgspec.json.encode(facts)
        apply(self.state, Message(seq=seq, lane=lane, epoch=1, at=self.at, facts=facts, raw=raw))

    def arrive(self) -> None:
        """The jobs of one turn."""
        first = self.state.kept.next_job
        self.tell("admission", *(self._admitted(JobId(first + k)) for k in range(JOBS_PER_TURN)))

    def _admitted(self, job: JobId) -> f.JobAdmitted:
        asked = Resources(gpu_milli=1000 * self.chance.choice(GPUS_ASKED), cpu_milli=1000, memory_mib=1024)
        role = Role(name="worker", count=1, min_count=1, max_count=1, resources=asked, command=("true",))
        spec = JobSpec(name=f"job-{job}", group="", user="bench", roles=(role,))
        return f.JobAdmitted(job=job, spec=spec, submit_id=str(job), by="bench")

    def turn(self) -> int:
        """One round: all shares on one state, committed in any order, then the leader's decision; gangs left to it."""
        opened = cycle.open_round(self.state, POOL, self.at)
        if opened is None:
            return 0
        self.tell(f"queue.{POOL}", opened)
        numbers = sorted(parsync.asked(self.state, POOL))
        shares = [(number, parsync.decide_share(self.state, POOL, number)) for number in numbers]
        self.chance.shuffle(shares)
        for number, share in shares:
            if share is not None:
                self.tell(f"scheduler.{POOL}.{number}", share)
        decided = cycle.decide_round(self.state, POOL, self.at)
        self.tell(f"placement.{POOL}", decided)
        return len(decided.placements)

    def start(self) -> list[JobId]:
        """Everybody who has room starts."""
        begun = [job.id for job in self.state.live_jobs() if job.state == JobState.STARTING]
        self.tell(
            "agent.bench", *(f.TaskStarted(task=task) for job in begun for task in self.state.kept.jobs[job].tasks)
        )
        return begun

    def end(self, jobs: list[JobId]) -> None:
        """These jobs are over."""
        tasks = [task for job in jobs for task in self.state.kept.jobs[job].tasks]
        exits: list[f.Fact] = [f.TaskExited(task=task, cause=f.ExitCause.EXITED, exit_code=0) for task in tasks]
        self.tell("agent.bench", *exits, f.GpusEmpty(tasks=tuple(tasks)))

    @property
    def whole_percent(self) -> float:
        """Free GPUs on wholly free nodes, in per cent of all that are free."""
        free = self.state.room(POOL).free
        return 100 * float(free[free == GPUS].sum()) / max(1, float(free.sum()))


def simulate(preference: Preference, *, sync: Sync, seed: int = 1, turns: int = TURNS) -> Result:
    """Equal load whoever synchronises how; all chance comes from the seed."""
    run = Run(preference, sync, seed)
    ends: dict[int, list[JobId]] = {}
    left, wholes = 0, []
    for turn in range(1, turns + 1):
        run.at += TURN_MS
        if over := ends.pop(turn, []):
            run.end(over)
        run.arrive()
        left += run.turn()
        for job in run.start():
            ends.setdefault(turn + run.chance.randint(*TURNS_HELD), []).append(job)
        wholes.append(run.whole_percent)
    tallies = run.state.kept.pools[POOL].schedulers.values()
    commits, conflicts = (sum(getattr(one, name) for one in tallies) for name in ("commits", "conflicts"))
    return Result(
        conflict_percent=100 * conflicts / max(1, commits + conflicts),
        quality=sum(wholes) / len(wholes),
        left_percent=100 * left / max(1, commits + left),
    )
