"""Jobs of a trace at the door of a simulated platform: their names, their dependencies, and who is refused why."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.door import admission
from gangline_core.ids import JobId
from gangline_core.job import ENDS
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_lab.sim.workload import Arrival, Workload


class Refused(Struct, frozen=True, array_like=True, gc=False):
    """A job that the door refused."""

    number: int
    """Place in the trace."""
    name: str
    group: str
    code: str
    why: str
    had_deadline: bool = False


class Door:
    """The judge at the door, asked for one arrival at a time."""

    def __init__(self, state: State, trace: Workload) -> None:
        """Nobody came yet."""
        self._state = state
        self._trace = trace
        self.numbers: dict[int, JobId] = {}
        """Job of this run by the number that its log gave it."""
        self.refused: list[Refused] = []
        self.untied = 0
        """Dependencies left out because the job they name is not there."""

    def judge(self, draft: admission.Draft, index: int, now: int) -> admission.Judgement:
        """What the door says of an arrival.

        A trace knows no rule that a name is used once at a time, so who comes under a taken one gets another.
        """
        arrival = self._trace.arrivals[index]
        spec = self._tied(arrival)
        judged = self._ask(draft, spec, index, now)
        if not judged.jobs and not spec.singleton and _reason(judged.facts) == ReasonCode.NAME_TAKEN:
            judged = self._ask(draft, replace(spec, name=f"{spec.name}-{index}"), index, now)
        if not judged.jobs:
            why = next((sentence(o.reason) for o in judged.facts if isinstance(o, f.JobRejected)), "")
            self.refused.append(
                Refused(index, spec.name, spec.group, _reason(judged.facts), why, bool(arrival.work.deadline_ms))
            )
        elif arrival.job:
            self.numbers[arrival.job] = judged.jobs[0]
        return judged

    def _ask(self, draft: admission.Draft, spec: JobSpec, index: int, now: int) -> admission.Judgement:
        return admission.judge_submit(
            self._state, draft, specs=[spec], submit_id=f"trace-{index}", by=spec.user, trace="", at=now
        )

    def _tied(self, arrival: Arrival) -> JobSpec:
        """Its spec with dependencies on the jobs of this run; those on jobs that are not there are left out."""
        spec = arrival.spec
        if not arrival.job or not spec.after:
            return spec
        after = tuple(
            replace(one, job=self.numbers[one.job], index=-1) for one in spec.after if one.job in self.numbers
        )
        self.untied += len(spec.after) - len(after)
        return replace(spec, after=after)


def _reason(facts: Iterable[f.Fact]) -> str:
    return next((fact.reason.code for fact in facts if isinstance(fact, f.JobRejected)), "")


def is_in_use(state: State, fact: f.GroupRemoved | f.UserRemoved) -> bool:
    """True while jobs of the group, or of the user in it, are not over."""
    group, user = (fact.path, "") if isinstance(fact, f.GroupRemoved) else (fact.group, fact.user)
    jobs = (job for job in state.kept.jobs.values() if job.state not in ENDS)
    return any(f"{job.spec.group}/".startswith(f"{group}/") and (not user or job.spec.user == user) for job in jobs)
