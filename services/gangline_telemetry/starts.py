"""Black holes: nodes on which whatever starts fails at once, and which therefore draw ever more jobs. Pure."""

from msgspec import Struct

from gangline_core.facts import DrainSet, ExitCause, Fact, NodeQuarantined, TaskExited, TaskStarted
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.state import State
from gangline_telemetry.config import Config

DOUBLINGS_MAX = 6


class Record(Struct):
    """What starts came to on one node."""

    failed: dict[JobId, str]
    """Different jobs that failed at once since something last ran well here, and whose they are."""
    times: int = 0


class Starts:
    """The starts of every node, as the log tells them."""

    def __init__(self, config: Config) -> None:
        """Nothing seen yet."""
        self.config = config
        self.nodes: dict[NodeId, Record] = {}
        self.where: dict[TaskId, tuple[NodeId, JobId, int]] = {}
        """Tasks that started lately: node, job, and when, in ms of the log."""

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
        record = self.nodes.setdefault(node, Record(failed={}))
        lived_s = (at - since_ms) / 1000
        failed = fact.cause == ExitCause.START_FAILED or (
            fact.cause == ExitCause.EXITED and bool(fact.exit_code) and lived_s < self.config.at_once_s
        )
        if failed:
            owner = state.kept.jobs.get(job)
            record.failed[job] = owner.spec.user if owner is not None else ""
        elif fact.cause in (ExitCause.EXITED, ExitCause.STOPPED) and lived_s >= self.config.at_once_s:
            record.failed.clear()

    def judge(self, state: State, now_ms: int) -> tuple[Fact, ...]:
        """Close nodes that fail everything, and try closed ones again after a while, later each time.

        Since when a node is closed stands in the fold: whoever leads next goes on counting from there.
        """
        facts: list[Fact] = []
        for name, node in sorted(state.kept.nodes.items()):
            record = self.nodes.get(name)
            if node.quarantine:
                record = self.nodes.setdefault(name, Record(failed={}))
                wait_s = self.config.retest_s * (1 << min(max(record.times - 1, 0), DOUBLINGS_MAX))
                if now_ms - node.quarantined_ms >= wait_s * 1000:
                    record.failed.clear()
                    facts.append(NodeQuarantined(node=name, problem=""))
            elif record is not None and self._is_hole(state, record):
                record.times += 1
                why = f"the starts of {len(record.failed)} different jobs in a row failed at once here"
                facts.append(NodeQuarantined(node=name, problem=why))
        return tuple(facts)

    def _is_hole(self, state: State, record: Record) -> bool:
        """True when so many jobs failed here, and not just because they fail everywhere.

        Where several users are known, the jobs of one alone prove nothing: whoever submits broken programs would close
        the cluster for all others.
        """
        own = {
            job: user
            for job, user in record.failed.items()
            if not any(job in other.failed for other in self.nodes.values() if other is not record)
        }
        is_one_users = len(set(own.values())) < 2
        if is_one_users and len({user.name for user in state.kept.users.values()}) > 1:
            return False
        return len(own) >= self.config.black_hole_jobs
