"""Whether the terms hold that few jobs name: not before a time, one at a time, never sent away, and outside windows."""

from collections import Counter
from collections.abc import Iterator, Mapping

from gangline_core import facts as f
from gangline_core.fold import Message
from gangline_core.groups import ancestors, user_key
from gangline_core.ids import JobId
from gangline_core.job import LIVE, Job, JobState, TaskState
from gangline_core.making_room.losses import BY_SLICE
from gangline_core.reserving.windows import Window
from gangline_core.scoring.yield_queue import BY_YIELD
from gangline_core.sharing.regroup import BY_LEASE
from gangline_core.state import State
from gangline_core.step import Step

IN_TURN = (BY_LEASE, BY_SLICE, BY_YIELD)
"""Rules by which everybody makes way in turn, and not for somebody more important."""


class OnTerms:
    """Looks on at one run, message by message."""

    def __init__(self) -> None:
        """Nothing happened yet."""
        self.met: Counter[str] = Counter()
        self._windows_seq = 0
        """The last message that set a window."""

    def faults(self, state: State, message: Message, step: Step, before: Mapping[JobId, Job]) -> Iterator[str]:
        """What this message broke; `before` are the jobs as they were."""
        for fact in message.facts:
            if isinstance(fact, f.WindowSet):
                self._windows_seq = message.seq
            elif isinstance(fact, f.RoundDecided):
                gone: tuple[f.Eviction | f.JobPaused, ...] = (*fact.evictions, *fact.pauses)
                for goes in gone:
                    job = before.get(goes.job)
                    if job is not None and not job.spec.preemptible and goes.beneficiary and goes.rule not in IN_TURN:
                        yield f"job {job.id} makes way for job {goes.beneficiary} by {goes.rule}, and none may send it"
        for moved in step.moves:
            job = state.kept.jobs.get(moved.job)
            if job is not None and moved.after == JobState.STARTING:
                yield from self._starts(state, message, job)

    def _starts(self, state: State, message: Message, job: Job) -> Iterator[str]:
        spec = job.spec
        self.met["none may send it away"] += not spec.preemptible
        if spec.not_before_ms:
            self.met["does not start before a time"] += 1
            if message.at < spec.not_before_ms:
                yield f"job {job.id} starts {spec.not_before_ms - message.at} ms too early"
        if spec.singleton:
            self.met["runs alone of its name"] += 1
            key = user_key(spec.group, spec.user)
            others = (one for one in state.kept.jobs.values() if one.id != job.id and one.spec.name == spec.name)
            at_once = [one.id for one in others if one.state in LIVE and user_key(one.spec.group, one.spec.user) == key]
            if at_once:
                yield f"job {job.id} starts beside {at_once} of its name"
        # Where nobody says what was seen, it was all that came before.
        seen = message.seen if message.seen >= 0 else message.seq - 1
        if seen >= self._windows_seq and state.kept.windows:
            for window in state.kept.windows.values():
                yield from self._keeps_out(state, message, job, window)

    def _keeps_out(self, state: State, message: Message, job: Job, window: Window) -> Iterator[str]:
        """Nobody starts on nodes of a window before whose beginning it may not have ended, unless it is kept for it."""
        spec = job.spec
        is_for_it = spec.user in window.users or not {*window.groups}.isdisjoint(ancestors(spec.group))
        end_ms = message.at + spec.time_limit_s * 1000
        is_over_before = spec.time_limit_s > 0 and end_ms <= window.start_ms
        if is_for_it or is_over_before or message.at >= window.end_ms or spec.pool != window.pool:
            return
        tasks = [state.kept.tasks[name] for name in job.tasks if name in state.kept.tasks]
        placed = {task.node for task in tasks if task.state == TaskState.PLACED}
        self.met["keeps out of a window"] += 1
        inside = sorted(placed & {*window.nodes} if window.nodes else placed)
        if inside:
            yield f"job {job.id} starts on {inside}, which window {window.name} keeps from it"
