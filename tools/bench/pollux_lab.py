"""The cluster of the Pollux paper's simulator: 16 nodes of 4 GPUs, a decision each 60 s, 30 s for every restart.

Speeds and gradients come from the paper's own profiles (gangline_lab.sim.goodput reads them). What a scheduler may know
is only what a job has reported: step times of the shapes it ran in, and the gradient statistics of its last epoch.
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.pollux_places import Places
from gangline_core.elasticity.fit import fitted
from gangline_core.elasticity.goodput import Grad, Limits, Perf, optimise
from gangline_core.elasticity.pollux import Bidder, configurations, pollux
from gangline_core.sizes.progress import POINTS_MAX, Point
from gangline_lab.sim.courses import STEP_UNIT
from gangline_lab.sim.goodput import Application

NODES, PER_NODE = 16, 4
GPUS = NODES * PER_NODE
TICK_S, RESTART_S = 60, 30
FIRST_QUEUE_GPU_S = 57_600
"""Attained service after which Tiresias sends a job to its second queue, as in the paper's comparison."""
NODES_MOST = 16


class Job:
    """One job of a workload: what it is, what it has done, where it runs."""

    def __init__(self, row: dict[str, str], application: Application, number: int) -> None:
        """Submitted and not yet placed."""
        self.number = number
        self.application = application
        self.arrives_s = int(row["time"])
        self.asked = int(row["num_replicas"])
        self.batch = int(row["batch_size"])
        self.places: tuple[int, ...] = ()
        """GPUs on each of its nodes."""
        self.done = 0.0
        self.pause_s = 0.0
        self.restarts = 0
        self.attained = 0.0
        self.ended_s: float | None = None
        self.points: dict[tuple[int, int, int, int], Point] = {}
        self.perf: Perf | None = None
        self.grad = Grad()
        self.left_s, self.left_at = -1, 0

    @property
    def size(self) -> int:
        """GPUs it has."""
        return sum(self.places)

    @property
    def limits(self) -> Limits:
        """Batches it may use when it adapts them."""
        one = self.application
        return Limits(one.first_batch, one.batch_max, one.local_min, one.local_max, accumulates=True)

    def epoch(self) -> int:
        """The epoch under way."""
        ends = self.application.ends
        return next((k for k, end in enumerate(ends) if self.done * STEP_UNIT < end), len(ends) - 1)

    def move(self, places: tuple[int, ...]) -> None:
        """Start, stop, or start again elsewhere."""
        if places:
            self.pause_s = RESTART_S
            self.restarts += self.attained > 0
        self.places = places

    def run(self, now_s: float, seconds: float, *, adapts: bool) -> None:
        """Train for so long, or to the end."""
        self.attained += self.size * seconds
        paused = min(self.pause_s, seconds)
        self.pause_s -= paused
        left_s, spent_s = seconds - paused, paused
        total = self.application.ends[-1] / STEP_UNIT
        while left_s > 1e-9 and self.ended_s is None:
            epoch = self.epoch()
            rate = self.application.goodput(self.places, self.total_batch(adapts=adapts), epoch)
            end = self.application.ends[epoch] / STEP_UNIT
            used_s = min(left_s, (end - self.done) / rate + 1e-6)
            self.done += rate * used_s
            left_s, spent_s = left_s - used_s, spent_s + used_s
            if self.done >= total:
                self.ended_s = now_s + spent_s
        if adapts and paused < seconds:
            self.tell()

    def total_batch(self, *, adapts: bool) -> int:
        """Samples of one update: its own choice when it adapts, else what its owner asked for."""
        if not adapts:
            return self.batch
        if self.perf is None:
            return max(self.application.first_batch, self.application.local_min * self.size)
        best = optimise(self.perf, self.grad, self.limits, len(self.places), self.size)
        return int(self.size * best.local[0] * (best.gathered[0] + 1))

    def tell(self) -> None:
        """Report the step time of this shape, the gradients of this epoch, and how long it will take on like this."""
        total = self.total_batch(adapts=True)
        rate = self.application.goodput(self.places, total, self.epoch())
        self.left_s = max(0, round((self.application.ends[-1] / STEP_UNIT - self.done) / rate))
        self.left_at = self.size
        local, gathered = self.application.local(total, self.size)
        step_s, sync_s = self.application.times(self.places, local)
        seconds = step_s + (step_s - sync_s) * gathered
        point = Point(len(self.places), self.size, local, gathered, max(1, round(seconds * 1e6)))
        sqr, var = self.application.gradient(total, self.epoch())
        first = self.application.first_batch
        # Statistics are told for the initial batch: a larger one has so much less variance.
        self.grad = Grad(sqr=1.0, var=var / sqr if sqr > 0 else 1e9) if first else Grad()
        key = (point.nodes, point.members, point.batch.bit_length(), point.gathered)
        if key not in self.points:
            self.points[key] = point
            while len(self.points) > POINTS_MAX:
                del self.points[next(iter(self.points))]
            self.perf = fitted(tuple(self.points.values()))


Decide = Callable[[Sequence[Job], float], dict[int, int]]
"""Jobs and now -> GPUs of each job that shall run, by number."""


def by_goodput(jobs: Sequence[Job], now_s: float) -> dict[int, int]:
    """Our policy, which sees only what jobs reported."""
    sizes = configurations(PER_NODE, NODES_MOST)
    bidders = [
        Bidder(
            sizes=sizes,
            gpus=1,
            present=job.size,
            perf=job.perf,
            grad=job.grad,
            limits=job.limits,
            profiled=max((point.members for point in job.points.values()), default=0),
            age_s=int(now_s - job.arrives_s),
            restarts=job.restarts,
            cost_s=RESTART_S,
            left_s=job.left_s,
            left_at=job.left_at,
        )
        for job in jobs
    ]
    chosen = pollux(bidders, capacity=GPUS, per_node=PER_NODE)
    return {job.number: size for job, size in zip(jobs, chosen, strict=True) if size}


def by_service(jobs: Sequence[Job], now_s: float) -> dict[int, int]:
    """Tiresias with two queues: least attained service first, rigid sizes, whoever fits may pass."""
    free, run = GPUS, {}
    for job in sorted(jobs, key=lambda job: (job.attained > FIRST_QUEUE_GPU_S, job.arrives_s, job.number)):
        if job.asked <= free:
            free -= job.asked
            run[job.number] = job.asked
    return run


def read_jobs(path: Path, applications: dict[str, Application]) -> list[Job]:
    """The jobs of a workload file in order of arrival."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return [Job(row, applications[row["application"]], number) for number, row in enumerate(rows)]


def mean_completion_s(jobs: list[Job], decide: Decide, *, adapts: bool) -> float:
    """Mean time from arrival to end over all jobs."""
    places, now_s = Places(NODES, PER_NODE), 0
    while any(job.ended_s is None for job in jobs):
        live = [job for job in jobs if job.arrives_s <= now_s and job.ended_s is None]
        if live:
            _settle(places, live, decide(live, now_s))
            for job in live:
                if job.places:
                    job.run(now_s, TICK_S, adapts=adapts)
                    if job.ended_s is not None:
                        places.give(job.number)
        now_s += TICK_S
    return sum(job.ended_s - job.arrives_s for job in jobs if job.ended_s is not None) / len(jobs)


def _settle(places: Places, live: Sequence[Job], wanted: dict[int, int]) -> None:
    """Stop, keep, move and start, so that everybody has what was decided."""
    by_number = {job.number: job for job in live}
    before = {job.number: job.places for job in live}
    placed = places.arrange({number: wanted.get(number, 0) for number in by_number})
    for number, counts in placed.items():
        if counts != before[number] or number in places.moved:
            by_number[number].move(counts)
