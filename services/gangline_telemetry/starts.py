"""Black holes: nodes on which whatever starts fails at once, and which therefore draw ever more jobs. Pure.

A start that fails at once is the node's fault or the program's. It is the program's where it failed on a node that
others run well on afterwards, or everywhere; the node's where the program ran well elsewhere. Before either is known it
counts against the first few nodes on which it failed, so that black holes do not excuse each other, and against no
more, so that a broken program that is tried again and again does not close a cluster.
"""

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gangline_core.facts import DrainSet, ExitCause, Fact, NodeQuarantined, TaskExited, TaskStarted
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.room.away import is_unspoken_for
from gangline_core.room.troubles import NONE
from gangline_core.state import State
from gangline_telemetry.config import Config

DOUBLINGS_MAX = 6
DOUBTED_NODES_MAX = 3
"""What fails on more nodes than this, and was not seen to run well, says nothing of any of them."""


class Failure(Struct, frozen=True):
    """A start that failed at once."""

    user: str
    at: int
    """In ms of the log."""
    was_choice: bool = True
    """Other nodes were there to try it on; a machine that came later says nothing of what failed before."""


class Record(Struct):
    """What starts came to on one node."""

    failed: dict[JobId, Failure]
    """Different jobs that failed at once since something last started well here."""


class Starts:
    """The starts of every node, as the log tells them."""

    def __init__(self, config: Config) -> None:
        """Nothing seen yet."""
        self.config = config
        self.nodes: dict[NodeId, Record] = {}
        self.where: dict[TaskId, tuple[NodeId, JobId, int]] = {}
        """Tasks that started lately: node, job, and when, in ms of the log."""
        self.proven: set[JobId] = set()
        """Jobs that were seen to run."""
        self.broken: set[JobId] = set()
        """Jobs that failed at once on nodes on which others ran well afterwards."""

    def note(self, state: State, facts: tuple[Fact, ...], at: int) -> None:
        """Take in what agents and administrators wrote; before or after it is folded makes no difference."""
        for fact in facts:
            if isinstance(fact, TaskStarted):
                task = state.kept.tasks.get(fact.task)
                if task is not None:
                    self.where[fact.task] = (task.node, task.job, at)
            elif isinstance(fact, TaskExited):
                self._exited(state, fact, at)
            elif isinstance(fact, DrainSet) and not fact.drained:
                # An administrator knows better: what failed before proves nothing any more.
                self.nodes.pop(fact.node, None)

    def _exited(self, state: State, fact: TaskExited, at: int) -> None:
        known = self.where.pop(fact.task, None)
        task = state.kept.tasks.get(fact.task)
        if known is None and task is not None:
            known = (task.node, task.job, task.started_ms or at)
        if known is None:
            return
        node, job, since_ms = known
        lived_s = (at - since_ms) / 1000
        ended_badly = fact.witnessed or (fact.cause == ExitCause.EXITED and bool(fact.exit_code))
        if fact.cause == ExitCause.START_FAILED or (ended_badly and lived_s < self.config.at_once_s):
            owner = state.kept.jobs.get(job)
            user = owner.spec.user if owner is not None else ""
            failure = Failure(user=user, at=at, was_choice=next(_to_try(state, job, {node}), None) is not None)
            self.nodes.setdefault(node, Record(failed={})).failed[job] = failure
        elif fact.cause in (ExitCause.EXITED, ExitCause.STOPPED) and lived_s >= self.config.at_once_s:
            self._ran(node, job, since_ms)

    def _ran(self, node: NodeId, job: JobId, since_ms: int) -> None:
        """A job started well on a node: what failed there before did so by its own fault, what fails later may not."""
        self.proven.add(job)
        self.broken.discard(job)
        record, well_ms = self.nodes.get(node), since_ms + int(1000 * self.config.at_once_s)
        for other, failure in list(record.failed.items()) if record is not None else ():
            if record is not None and failure.at <= well_ms:
                del record.failed[other]
                if other not in self.proven:
                    self.broken.add(other)

    def _note_those_that_run(self, state: State, now_ms: int) -> None:
        """A start that did not fail within the time for it went well, however long the program runs."""
        for name, (node, job, since_ms) in list(self.where.items()):
            if now_ms - since_ms >= 1000 * self.config.at_once_s:
                del self.where[name]
                if name in state.kept.tasks:
                    self._ran(node, job, since_ms)

    def judge(self, state: State, now_ms: int) -> tuple[Fact, ...]:
        """Close nodes that fail everything, and try closed ones again after a while, later each time.

        Since when a node is closed, and how often it was, stands in the fold: whoever leads next goes on from there.
        """
        self._note_those_that_run(state, now_ms)
        failed_on = self._failed_on(state)
        facts: list[Fact] = []
        for name, node in sorted(state.kept.nodes.items()):
            record = self.nodes.get(name)
            if is_unspoken_for(node):
                # It is opened when somebody speaks for its cluster again, and not by time.
                continue
            if node.quarantine:
                closed = state.kept.troubles.get(name, NONE).closed
                wait_s = self.config.retest_s * (1 << min(max(closed - 1, 0), DOUBLINGS_MAX))
                if now_ms - node.quarantined_ms >= wait_s * 1000:
                    if record is not None:
                        record.failed.clear()
                    facts.append(NodeQuarantined(node=name, problem=""))
            elif record is not None and self._is_hole(state, record, failed_on):
                why = f"the starts of {len(record.failed)} different jobs in a row failed at once here"
                facts.append(NodeQuarantined(node=name, problem=why))
        return tuple(facts)

    def _failed_on(self, state: State) -> dict[JobId, set[NodeId]]:
        """The nodes on which each job failed at once; what is said of other jobs is forgotten when they are over."""
        failed_on: dict[JobId, set[NodeId]] = defaultdict(set)
        for node, record in self.nodes.items():
            for job in record.failed:
                failed_on[job].add(node)
        for seen in (self.proven, self.broken):
            over = [one for one in seen if one not in failed_on and not _lives(state, one)]
            seen.difference_update(over)
        return failed_on

    def _is_hole(self, state: State, record: Record, failed_on: dict[JobId, set[NodeId]]) -> bool:
        """True when so many jobs failed here, and not by their own fault.

        Where several users are known, the jobs of one alone prove nothing: whoever submits broken programs would close
        the cluster for all others.
        """
        if len(record.failed) < self.config.black_hole_jobs:
            return False
        own = {
            job: failure.user
            for job, failure in record.failed.items()
            if self._counts(state, job, failed_on[job], was_choice=failure.was_choice)
        }
        is_one_users = len(set(own.values())) < 2
        if is_one_users and len({user.name for user in state.kept.users.values()}) > 1:
            return False
        return len(own) >= self.config.black_hole_jobs

    def _counts(self, state: State, job: JobId, nodes: set[NodeId], *, was_choice: bool) -> bool:
        """True when the failures of a job may be the fault of these nodes."""
        if job in self.proven:
            return True
        if job in self.broken or len(nodes) > DOUBTED_NODES_MAX:
            return False
        # What fails wherever it can be tried is no node's fault.
        return was_choice and next(_to_try(state, job, nodes), None) is not None


def _to_try(state: State, job: JobId, tried: set[NodeId]) -> Iterator[NodeId]:
    """The other nodes of the job's pool that take work, or would if nothing had failed there."""
    known = state.kept.jobs.get(job)
    pool = known.spec.pool if known is not None else ""
    for name, node in state.kept.nodes.items():
        if name not in tried and node.pool == pool and (node.takes_work or node.quarantine):
            yield name


def _lives(state: State, job: JobId) -> bool:
    known = state.kept.jobs.get(job)
    return known is not None and known.ended_ms == 0
