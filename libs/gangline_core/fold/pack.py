"""What becomes of the GPUs of two jobs that are packed: half of them for each, and all again once one lets go."""

from msgspec.structs import replace

from gangline_core.fold.life import move_job
from gangline_core.ids import JobId
from gangline_core.job import Move
from gangline_core.kept import Pack
from gangline_core.pauses.packing import halved, made_whole, pack_fault
from gangline_core.pauses.pausing import counted, going_on, taken_up
from gangline_core.room.holds import going_on_fault
from gangline_core.state import State
from gangline_core.step import Step

UNPACKED_KEPT = 16
"""So many others with which a job did not get on well are remembered."""


def pack(state: State, job_id: JobId, host_id: JobId, step: Step) -> None:
    """A paused job goes on beside another one, unless that cannot be any more."""
    job, host = state.job(job_id), state.job(host_id)
    if job is None or host is None or pack_fault(state, job, host) is not None:
        step.voided.append(job_id)
        return
    if going_on_fault(state, job, [halved(taken_up(task)) for task in state.tasks_of(job)]) is not None:
        step.voided.append(job_id)
        return
    for task in state.tasks_of(host):
        state.put_task(halved(counted(task, step.at)))
    for task in state.tasks_of(job):
        state.put_task(halved(going_on(task, step.at)))
        step.tasks.append(task.id)
    state.kept.packs[job_id] = Pack(host=host_id, since_ms=step.at)
    move_job(state, replace(job, pause=None, reason=None, resumed_ms=step.at), Move.RESUME, step)


def unpack(state: State, job_id: JobId, at: int) -> None:
    """One of a pack stands still or is gone: whoever is left has the GPUs alone."""
    for name in forget_packs(state, job_id):
        job = state.kept.jobs.get(name)
        for task in state.tasks_of(job) if job is not None else ():
            state.put_task(made_whole(task if task.working is not None else counted(task, at)))


def forget_packs(state: State, job_id: JobId) -> list[JobId]:
    """The job is packed with nobody from now on, and nobody's GPUs change; both jobs of what was a pack."""
    both = next(([guest, known.host] for guest, known in state.kept.packs.items() if job_id in (guest, known.host)), [])
    for guest in both[:1]:
        del state.kept.packs[guest]
    return both


def note_unpacked(state: State, guest: JobId, host: JobId) -> None:
    """Those two are not packed again."""
    known = state.kept.unpacked.get(guest, ())
    state.kept.unpacked[guest] = (*(other for other in known if other != host), host)[-UNPACKED_KEPT:]
