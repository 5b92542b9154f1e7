"""Giving room for the next lease: whoever was taken and waits gets a place, and those who were not make way for it.

The order stands in `leases`. Rounds in the middle of a lease follow it as well for jobs that were taken for a model: a
job that moves to another model stops first and starts there in the next round. Until all movers stand still nobody
else starts, or room that one of them leaves would be gone before the other comes.
"""

from collections.abc import Collection

import numpy as np

from gangline_core.facts import TaskPlacement
from gangline_core.foresight.forecast import held_by
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState, Task
from gangline_core.making_room.claims import is_kept_out
from gangline_core.making_room.preemption import Preemptor
from gangline_core.pauses.leases import free_by_model, in_room, renewable, taken
from gangline_core.pauses.packing import guests_of, is_packed
from gangline_core.pauses.pausing import companions
from gangline_core.reserving.promised import has_all
from gangline_core.room.capacity import Room
from gangline_core.seating import Found, find_seats
from gangline_core.sharing.beside import INTERLEAVED
from gangline_core.sharing.regroup import BY_LEASE, is_awaited, regroup
from gangline_core.table import Table


def rotate(table: Table, preemptor: Preemptor, *, behind: frozenset[JobId] = frozenset(), is_new: bool) -> None:
    """Take jobs in the order of the leases; with a new lease those that were not taken make way.

    Who stands `behind` another one that would have it sent away at once is not seated, but waits for its turn.
    """
    leases = table.pool.leases
    if not table.policy.lease_s or not leases:
        return
    if table.policy.sharing == INTERLEAVED:
        running_jobs = renewable(table.state, table.pool, table.now) if is_new else ()
        regroup(table, running_jobs, behind, is_new=is_new)
        return
    if not (is_new or leases[0].model):
        return
    table.is_moving = _is_moving(table)
    running = {job.id: job for job in renewable(table.state, table.pool, table.now)} if is_new else {}
    running = {job.id: job for job in running.values() if not table.ledger.is_sheltered(job)}
    holding = {job: model_held(table, own) for job, own in running.items()}
    settled = _settled(table) | _kept_out(table)
    open_leases = [lease for lease in leases if lease.job not in settled]
    chosen = taken(table.state, open_leases, free_by_model(table.state, table.room, running.values()), holding)
    order = {lease.job: k for k, lease in reversed(list(enumerate(leases)))}
    losers = [running[job] for job in _last_first(running, order) if _makes_way(table, job, running, chosen)]
    movers = [running[job] for job in chosen if job in running and chosen[job] not in ("", holding[job])]
    movers = [job for job in movers if not is_packed(table.state, job.id)]
    for job_id, model in chosen.items():
        job = table.state.kept.jobs[job_id]
        if job.state == JobState.WAITING and job_id not in behind:
            leaving = [one for one in (*losers, *movers) if not model or holding[one.id] == model]
            _seat(table, preemptor, job, losers=leaving, model=model)
    still = [loser for loser in losers if not table.leaving.issuperset(loser.tasks)]
    table.is_moving |= _move(table, preemptor, {job.id: chosen[job.id] for job in movers}, losers=still)


def _makes_way(table: Table, job: JobId, running: Collection[JobId], chosen: Collection[JobId]) -> bool:
    """True for a job that was not taken; of a pack for the one with whom all go, where none of them was.

    What one of a pack leaves is the others', so while one of them stays all do.
    """
    everybody = {job, *companions(table.state, job)}
    return job not in table.state.kept.packs and everybody.issubset(running) and everybody.isdisjoint(chosen)


def _tasks_of(table: Table, room: Room, job: Job) -> list[Task]:
    """What it holds in this room with whoever goes when it does, as far as nobody waits for that."""
    everybody = (job, *guests_of(table.state, job.id))
    return [task for one in everybody for task in in_room(table.state, room, one) if task.id not in table.leaving]


def _is_moving(table: Table) -> bool:
    """True while a job that was let go for its own sake has not stopped, and may still be expected to."""
    live = (table.state.kept.jobs[job] for job in sorted(table.state.live.get(table.pool.pool.name, {})))
    movers = (job for job in live if job.state == JobState.STOPPING and job.yielded_to[-1:] == (job.id,))
    return any(is_awaited(table, job) for job in movers)


def model_held(table: Table, job: Job) -> str:
    """The GPU model that a running job is on, in lower case."""
    return next((task.gpu_model.lower() for task in table.state.tasks_of(job) if task.gpus), "")


def _last_first(running: dict[JobId, Job], order: dict[JobId, int]) -> list[JobId]:
    return sorted(running, key=lambda job: (-order.get(job, len(order)), -job))


def _settled(table: Table) -> set[JobId]:
    return {held.claim.job for held in table.held} | {placement.job for placement in table.placements}


def _kept_out(table: Table) -> set[JobId]:
    """Who has a lease that was planned earlier, and may not start by now."""
    jobs = (job for lease in table.pool.leases if (job := table.state.job(lease.job)) is not None)
    return {job.id for job in jobs if job.state == JobState.WAITING and is_kept_out(table.state, job, table.now)}


def _seat(table: Table, preemptor: Preemptor, job: Job, *, losers: list[Job], model: str) -> None:
    """The job starts where there is room, or claims that of losers, the last in the order first."""
    room = _only(table.room, model)
    found = find_seats(table.seating, job, room)
    if isinstance(found, Found):
        table.place(job, found.seats, found.amounts, guarded=False, backfilled=False)
    elif losers and found is None:
        preemptor.make_room_of(job, losers, rule=BY_LEASE, room=room)


def _move(table: Table, preemptor: Preemptor, movers: dict[JobId, str], *, losers: list[Job]) -> bool:
    """Who has a place on its model stops, to start there in the next round, and so does who is in its way there.

    Nobody leaves its room unless all movers together find theirs once everybody is gone; true when anybody does.
    """
    seats, room = _seated(table, movers, losers)
    for loser in reversed(losers):
        # The last in the order goes first: those before it stay where nobody comes.
        tasks = _tasks_of(table, room, loser)
        if all(has_all(room, room.layout.row[task.node], task) for task in tasks):
            for task in tasks:
                room.take(task)
            continue
        nodes = {task.node for task in tasks}
        comers = [job for job, places in seats.items() if any(place.node in nodes for place in places)]
        # Where nobody comes its room is gone for another reason, such as a card that failed.
        if comers:
            preemptor.let_go(loser, table.state.kept.jobs[comers[0]], rule=BY_LEASE)
    for job_id in seats:
        job = table.state.kept.jobs[job_id]
        preemptor.let_go(job, job, rule=BY_LEASE)
    return bool(seats)


def _seated(
    table: Table, movers: dict[JobId, str], losers: list[Job]
) -> tuple[dict[JobId, tuple[TaskPlacement, ...]], Room]:
    """Where each mover would be once all movers and losers are gone, and the room left then; who finds none stays."""
    staying: set[JobId] = set()
    while True:
        moving = {job: model for job, model in movers.items() if job not in staying}
        room = table.settled()
        for job in (*losers, *(table.state.kept.jobs[job] for job in moving)):
            for task in _tasks_of(table, room, job):
                room.give(task)
        seats: dict[JobId, tuple[TaskPlacement, ...]] = {}
        for job_id, model in moving.items():
            job = table.state.kept.jobs[job_id]
            own = held_by(table.state, job).folded
            table.ledger.give(job, own)
            found = find_seats(table.seating, job, _only(room, model))
            table.ledger.take(job, own)
            if isinstance(found, Found):
                seats[job_id] = found.seats.tasks
                for place in found.seats.tasks:
                    room.take(place)
        if len(seats) == len(moving):
            return seats, room
        staying.update(job for job in moving if job not in seats)


def _only(room: Room, model: str) -> Room:
    """The room on nodes that have this model; all of it when the model does not matter."""
    if not model:
        return room
    numbers = [number for number, kind in enumerate(room.layout.kinds) if kind.model == model]
    own = room.copy()
    own.close(np.asarray(~np.isin(room.layout.kind, numbers).any(axis=1), dtype=np.bool_))
    return own
