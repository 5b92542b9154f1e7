"""A small cluster under random load, decided by the real core: its log is what a platform would have written.

Between a decision and its append other lanes may write, as in production, so `seq_seen` lags behind.
"""

from collections.abc import Callable
from random import Random

from tests.lab.logged import LoggedWorld
from tests.make import group, node, spec

from gangline_core import cycle, elasticity
from gangline_core import facts as f
from gangline_core.door import admission
from gangline_core.groups import User
from gangline_core.ids import JobId, NodeId
from gangline_core.job import TaskState
from gangline_core.limits import accounting

POOL = "default"
ACTS = 40


class BusyCluster(LoggedWorld):
    """Random submissions, starts, ends, cancellations, holds and losses, and every decision that follows from them."""

    def __init__(self, seed: int) -> None:
        """Three nodes, two groups with limits, and a seed for everything."""
        super().__init__(
            node("n1", gpus=4),
            node("n2", gpus=4),
            node("n3", gpus=2, model="T4"),
            groups=[group("a", limit={"gpu_milli": 6000}), group("b", limit={"gpu_milli": 8000})],
            users=[User(name="ada", group="a"), User(name="bob", group="b")],
        )
        self.random = Random(seed)
        self.submits = 0

    def live(self, acts: int = ACTS) -> "BusyCluster":
        """So many random acts, with everything decided after each."""
        for _ in range(acts):
            self.wait(self.random.choice([0.01, 1, 30, 400]))
            self.random.choice([self.arrive, self.arrive, self.begin, self.begin, self.end, self.disturb])()
            self.settle()
        return self

    def arrive(self) -> None:
        """One request with one to three jobs."""
        self.submits += 1
        user, home = self.random.choice([("ada", "a"), ("bob", "b")])
        asked = [
            spec(
                f"job-{self.submits}-{k}",
                group=home,
                user=user,
                gpus=self.random.choice([0.5, 1, 1, 2, 4]),
                tasks=self.random.choice([1, 1, 2]),
                maximum=self.random.choice([None, 4]),
                level=self.random.choice(["normal", "normal", "high"]),
                time_limit_s=self.random.choice([0, 600]),
            )
            for k in range(self.random.randint(1, 3))
        ]
        draft = admission.Draft()
        self.decide(
            "admission",
            lambda: (
                admission.judge_submit(
                    self.state, draft, specs=asked, submit_id=f"s{self.submits}", by=user, trace="", at=self.at
                ).facts
            ),
        )

    def begin(self) -> None:
        """Placed tasks start."""
        for task in list(self.state.kept.tasks.values()):
            if task.state == TaskState.PLACED and not task.stop:
                self.tell("agent.sim", f.TaskStarted(task=task.id))

    def end(self) -> None:
        """A running job ends, and what was told to stop is gone."""
        self.stop_all()
        running = [job.id for job in self.state.live_jobs() if job.started_ms and job.outcome is None]
        if running:
            self.finish(self.random.choice(running), code=self.random.choice([0, 0, 1]))

    def disturb(self) -> None:
        """A user cancels or holds, or a node is lost and comes back."""
        jobs = sorted(self.state.kept.jobs)
        if jobs and self.random.random() < 0.7:
            self._disturb_job(self.random.choice(jobs))
            return
        lost = self.state.kept.nodes[self.random.choice(sorted(self.state.kept.nodes))]
        self.tell("telemetry", f.NodeLost(node=lost.id, silent_ms=30_000))
        self.settle()
        self.see(lost)

    def _disturb_job(self, job: JobId) -> None:
        if self.random.random() < 0.5:
            self.cancel(job)
        else:
            self.tell("admission", f.HoldSet(job=job, held=self.random.random() < 0.5, by="ada"))

    def settle(self) -> None:
        """Everything that is due is decided and written."""
        for _ in range(50):
            if cycle.round_due(self.state, POOL) and self.decide(f"queue.{POOL}", self._open):
                self.decide(f"placement.{POOL}", self._place)
            elif not self.decide(f"elastic.{POOL}", lambda: elasticity.propose(self.state, POOL, self.at)):
                break
        self.decide("accounting", lambda: accounting.charge(self.state, self.at))

    def _open(self) -> tuple[f.Fact, ...]:
        opened = cycle.open_round(self.state, POOL, self.at)
        return () if opened is None else (opened,)

    def _place(self) -> tuple[f.Fact, ...]:
        opened = self.state.kept.pools[POOL].open_round
        assert opened is not None
        return (cycle.decide_round(self.state, POOL, opened.at),)

    def decide(self, lane: str, decision: Callable[[], tuple[f.Fact, ...]]) -> bool:
        """Decide now, let others write, and append; False when there was nothing to decide."""
        seen, facts, at = self.state.kept.seq, decision(), self.at
        if not facts:
            return False
        if self.random.random() < 0.3:
            self.tell("telemetry", f.UtilisationSummary(node=NodeId("n1"), gpu_percent=50, memory_mib=1, samples=1))
        self.tell(lane, *facts, at=at, seq_seen=seen)
        return True
