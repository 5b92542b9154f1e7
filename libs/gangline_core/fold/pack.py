"""What becomes of the GPUs of jobs that are packed: an equal part of them for each, and more once one lets go."""

from collections.abc import Sequence

from msgspec.structs import replace

from gangline_core.facts import Placement
from gangline_core.fold.life import move_job
from gangline_core.groups import holders
from gangline_core.ids import JobId, NodeId
from gangline_core.job import Move, Task
from gangline_core.kept import Pack
from gangline_core.limits.quota import Ledger
from gangline_core.pauses.packing import halved, made_whole, pack_fault, with_part
from gangline_core.pauses.pausing import companions, counted, going_on, taken_up
from gangline_core.room.holds import going_on_fault
from gangline_core.sharing.beside import beside_fault
from gangline_core.spec import GPU_MILLI
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


def share_out(state: State, company: Sequence[JobId], at: int, *, more: int = 0, comes: bool = False) -> None:
    """Each task of these jobs has an equal part of its GPUs with all of them that work there, and `more` to come.

    What does not divide is the first one's, so that nothing is left over. Guests have a part only where nobody else of
    them works; and nobody has any where somebody `comes` whose guests they will be.
    """
    packs = state.kept.packs
    there: dict[tuple[NodeId, int], list[tuple[bool, Task]]] = {}
    for name in company:
        is_guest = comes or (name in packs and packs[name].is_guest)
        for task in state.tasks_of(state.kept.jobs[name]):
            for share in task.gpus[:1] if task.working is None else ():
                there.setdefault((task.node, share.index), []).append((is_guest, task))
    for sharers in there.values():
        owners = [task for is_guest, task in sharers if not is_guest]
        guests = [task for is_guest, task in sharers if is_guest]
        if not owners and not comes:
            owners, guests = guests, []
        milli = GPU_MILLI // max(1, len(owners) + more)
        for number, task in enumerate(owners):
            rest = 0 if number else GPU_MILLI - milli * (len(owners) + more)
            state.put_task(with_part(counted(task, at), milli + rest))
        for task in guests:
            state.put_task(with_part(counted(task, at), 0))


def unpack(state: State, job_id: JobId, at: int) -> None:
    """Of one of a pack some tasks stand still or are gone: whoever is left shares these GPUs, or has them alone."""
    left, tasks = companions(state, job_id), state.tasks_of(state.kept.jobs[job_id])
    if not left:
        return
    if any(task.working is None for task in tasks):
        share_out(state, _company(state, job_id), at)
        return
    _leave(state, job_id, left)
    share_out(state, _company(state, left[0]), at)
    for task in tasks:
        state.put_task(made_whole(task))


def _company(state: State, job_id: JobId) -> tuple[JobId, ...]:
    """All of the job's pack, the host first."""
    own = state.kept.packs.get(job_id)
    host = job_id if own is None else own.host
    return (host, *companions(state, host))


def start_beside(state: State, placement: Placement, at: int) -> str | None:
    """Those beside whom the job starts give it its part; the reason why they cannot, in a few words, else None."""
    fault = beside_fault(state, placement)
    if fault is None:
        milli = _milli(placement)
        company = _company(state, placement.beside)
        share_out(state, company, at, more=int(0 < milli < GPU_MILLI), comes=milli == GPU_MILLI)
    return fault


def gives_to_others(state: State, placement: Placement) -> bool:
    """True when those beside whom the job starts give back time below a limit that does not count for the job."""
    if not _milli(placement):
        return False
    spec, ledger = state.kept.jobs[placement.job].spec, Ledger(state)
    own, company = holders(spec.group, spec.user), _company(state, placement.beside)
    return any(rung.holder not in own for name in company for rung in ledger.rungs(state.kept.jobs[name]))


def settle_beside(state: State, placement: Placement, at: int, *, started: bool) -> None:
    """The job shares GPUs from now on, or did not start after all.

    Who comes for all of their time has the other one as its guest; who comes for none of it is a guest.
    """
    company = _company(state, placement.beside)
    if started:
        milli = _milli(placement)
        guest, host = (company[0], placement.job) if milli == GPU_MILLI else (placement.job, company[0])
        is_guest = milli in (0, GPU_MILLI)
        state.kept.packs[guest] = Pack(host=host, since_ms=at, by_rule=True, is_guest=is_guest)
        company = (*company, placement.job)
    share_out(state, company, at)


def _milli(placement: Placement) -> int:
    """The part of the time of each GPU for which the job comes."""
    return placement.tasks[0].gpus[0].milli


def _leave(state: State, job_id: JobId, left: Sequence[JobId]) -> None:
    """The others stay together; where the host goes, the one with the smallest number is it from now on."""
    packs = state.kept.packs
    if packs.pop(job_id, None) is None:
        del packs[left[0]]
        for guest in left[1:]:
            packs[guest] = replace(packs[guest], host=left[0])


def forget_packs(state: State, job_id: JobId) -> None:
    """None of the job's pack is packed with anybody from now on, and nobody's GPUs change."""
    for name in (job_id, *companions(state, job_id)):
        state.kept.packs.pop(name, None)


def note_unpacked(state: State, guest: JobId, host: JobId) -> None:
    """Those two are not packed again."""
    known = state.kept.unpacked.get(guest, ())
    state.kept.unpacked[guest] = (*(other for other in known if other != host), host)[-UNPACKED_KEPT:]
