"""No size changes without a cause from outside: what counts as one, and the proof that every proposal carries.

A proposal names the log sequence of its cause (`ResizeProposed.because`): the last message that brought something that
no change of size brought about. The fold takes it only if that cause is newer than the one by which this job's size was
last changed, so no chain of changes can go on by itself, whoever decides and however: each change of one job uses up a
cause, and only the world makes new ones. What two jobs change for each other in one decision has one cause.

A job that comes, ends, or stops and starts for another reason is such a cause; so are nodes, settings, and reports of
jobs. What our own changes lead to is none: room that comes back from members that left, members that start, a gang
that starts again for its new size, or anew because it did not find together at it.
"""

from collections.abc import Mapping

from gangline_core.facts import ResizeProposed, RoundDecided
from gangline_core.ids import JobId
from gangline_core.job import ENDS, JobState, ResizeStage
from gangline_core.kept import PoolState
from gangline_core.sizes import resizing
from gangline_core.state import State
from gangline_core.step import JobMoved, Step

RESTS = frozenset({JobState.RUNNING, JobState.HELD, JobState.WAITING, JobState.PAUSED, JobState.SUSPENDED})
"""Where a job is when something about it has come to its end."""


def is_from_outside(state: State, step: Step) -> bool:
    """True when the message brought something that no change of size brought about."""
    return bool(step.nodes or step.settings) or any(_is_cause(state, step, moved) for moved in step.moves)


def _is_cause(state: State, step: Step, moved: JobMoved) -> bool:
    if moved.before is None or moved.after in ENDS:
        return True
    if moved.after not in RESTS or moved.job in step.sized:
        return False
    job = state.kept.jobs[moved.job]
    return not (resizing.is_active(job) or (job.resize is not None and job.resize.stage == ResizeStage.FAILED))


def is_new(state: State, job: JobId) -> bool:
    """True when something happened outside since the cause by which the job's size was last changed."""
    return state.kept.outside_seq > state.kept.proofs.get(job, 0)


def fault(state: State, pool: PoolState, proposal: ResizeProposed) -> str | None:
    """Why the proof of a proposal does not hold; None when it does, or when an older build wrote none."""
    if not proposal.because or pool.later.get(proposal.job) == proposal:
        return None
    if proposal.because > state.kept.outside_seq:
        return f"size of job {proposal.job} was proposed for a cause that is none: {proposal.because}"
    if proposal.because <= state.kept.proofs.get(proposal.job, 0):
        return f"size of job {proposal.job} was proposed twice for one cause: {proposal.because}"
    return None


def use_up(state: State, decided: RoundDecided, proposals: Mapping[JobId, ResizeProposed]) -> None:
    """Sizes that a round changes as proposed have used up their causes."""
    changed = {growth.job for growth in decided.growths} | {restart.job for restart in decided.restarts}
    changed |= {less.job for less in decided.shrinks if not less.beneficiary}
    for job in sorted(changed & proposals.keys()):
        if job in state.kept.jobs:
            state.kept.proofs[job] = max(proposals[job].because, state.kept.proofs.get(job, 0))
