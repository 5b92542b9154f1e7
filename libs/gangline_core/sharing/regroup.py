"""Jobs that interleave their stages, lease after lease: how companies part and how they come together.

When a lease ends, running and waiting jobs stand in one order and companies are made of them (see `interleaving`). Each
company stays where most of its members are. Whoever runs elsewhere, or in no company, stops; once all of them have,
each company begins, its members one after the other on the same GPUs. In the middle of a lease members that could not
start yet do so as soon as they can, and others have what no company takes.
"""

from collections.abc import Mapping, Sequence

from gangline_core.facts import Eviction, TaskPlacement
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState, Task
from gangline_core.making_room.claims import is_kept_out, is_overdue
from gangline_core.pauses.pausing import companions, leaving_part
from gangline_core.reasons import ReasonCode
from gangline_core.seating import Found, find_seats
from gangline_core.sharing.beside import COMPANY_MAX, is_at_work
from gangline_core.sharing.grouping import Company, host_of, planned
from gangline_core.sharing.starting import start_beside
from gangline_core.spec import GPU_MILLI, gpu_milli_wanted
from gangline_core.state import State
from gangline_core.table import Table

BY_LEASE = "lease"
"""The rule that lets a job go whose lease is over and was given to another one."""


def regroup(table: Table, renewable: Sequence[Job], behind: frozenset[JobId] = frozenset(), *, is_new: bool) -> None:
    """Part those who are not to be together any more, or seat those who are and stand not `behind` somebody else."""
    plan = planned(table.pool)
    if is_new:
        _part(table, plan, renewable)
    table.is_moving = bool(table.evictions) or _is_parting(table)
    if not table.is_moving:
        # The widest first, as in the artefact: whoever comes later finds whole nodes less often.
        for company in sorted(plan, key=lambda one: -_width(table, one[0])):
            _seat(table, tuple(job for job in company if job not in behind))


def _is_parting(table: Table) -> bool:
    """True while somebody who was let go for a new lease has not stopped, and may still be expected to."""
    live = (table.state.kept.jobs[job] for job in sorted(table.state.live.get(table.pool.pool.name, {})))
    return any(job.state == JobState.STOPPING and _goes_by_lease(job) and is_awaited(table, job) for job in live)


def _goes_by_lease(job: Job) -> bool:
    why = job.reason
    return why is not None and why.code == ReasonCode.PREEMPTED and why.numbers.get("rule") == BY_LEASE


def is_awaited(table: Table, job: Job) -> bool:
    """False for one of which a process hangs: a whole pool does not stand still for that."""
    return not any(is_overdue(table.state, task, table.now) for task in table.state.tasks_of(job))


def _part(table: Table, plan: Sequence[Company], renewable: Sequence[Job]) -> None:
    mine = (job for job in renewable if gpu_milli_wanted(job.spec) and not table.ledger.is_sheltered(job))
    running = {job.id: job for job in mine}
    staying = settled_places(table.state, plan, running)
    while (wide := _unseated(table, plan, running, staying)) is not None:
        # Whoever is narrower makes way as well and comes back where it is not in the way of a wide one.
        narrow = {host for host, jobs in staying.items() if _width(table, jobs[0]) < wide}
        staying = {host: jobs for host, jobs in staying.items() if host not in narrow}
        if not narrow:
            break
    stays = {job for jobs in staying.values() for job in jobs}
    leads = {job: company[0] for company in plan for job in company}
    for name, job in sorted(running.items()):
        if name not in stays:
            lead = leads.get(name, plan[0][0] if plan else name)
            lost_ms = table.now - job.started_ms if job.started_ms else 0
            table.evictions.append(Eviction(job=name, beneficiary=lead, rule=BY_LEASE, lost_ms=lost_ms))
            table.leaving.update(job.tasks)


def settled_places(state: State, plan: Sequence[Company], running: Mapping[JobId, Job]) -> dict[JobId, Company]:
    """Who of the running jobs may stay, by who is the first there now.

    A company stays where most of its members are, if nobody is there who stays for another reason.
    """
    there: dict[JobId, set[JobId]] = {}
    for name in running:
        there.setdefault(host_of(state, name), set()).add(name)
    open_places = {host: own for host, own in there.items() if own >= {host, *companions(state, host)}}
    staying: dict[JobId, Company] = {}
    for company in plan:
        members = {host: tuple(one for one in company if one in own) for host, own in open_places.items()}
        best = max(members, key=lambda host: (len(members[host]), -host), default=None)
        if best is not None and members[best]:
            staying[best] = members[best]
            del open_places[best]
    return staying


def _unseated(
    table: Table, plan: Sequence[Company], running: Mapping[JobId, Job], staying: Mapping[JobId, Company]
) -> int | None:
    """The GPU thousandths of the widest company that would find no place beside those who stay; None when all do."""
    stays = {job for jobs in staying.values() for job in jobs}
    going = [task for name, job in running.items() if name not in stays for task in table.state.tasks_of(job)]
    names = {task.id for task in going}
    room = table.room.copy()
    for task in going:
        room.give(leaving_part(table.state, task, going=names))
    for company in sorted(plan, key=lambda one: -_width(table, one[0])):
        lead = table.state.kept.jobs[company[0]]
        if not stays.isdisjoint(company):
            continue
        found = find_seats(table.seating, lead, room)
        if found is None:
            return _width(table, lead.id)
        for place in found.seats.tasks if isinstance(found, Found) else ():
            room.take(place)
    return None


def _width(table: Table, job: JobId) -> int:
    return gpu_milli_wanted(table.state.kept.jobs[job].spec)


def _seat(table: Table, company: Company) -> None:
    """Whoever of the company waits and may start does so, the first where there is room and the others beside it."""
    state = table.state
    started = {placement.job for placement in table.placements}
    jobs = [job for name in company if (job := state.job(name)) is not None]
    waiting = [job for job in jobs if job.state == JobState.WAITING and job.id not in started]
    # A lease that was planned earlier does not know whose budget was used up since.
    waiting = [job for job in waiting if not is_kept_out(state, job, table.now)]
    at_work = [job for job in jobs if is_at_work(state, job)]
    if not waiting:
        return
    if at_work:
        host = host_of(state, at_work[0].id)
        places: Sequence[Task | TaskPlacement] = state.tasks_of(at_work[0])
        number = 1 + len(companions(state, host))
    else:
        lead, *waiting = waiting
        found = find_seats(table.seating, lead, table.room)
        if not isinstance(found, Found):
            return
        table.place(lead, found.seats, found.amounts, guarded=False, backfilled=False)
        host, places, number = lead.id, found.seats.tasks, 1
    for job in waiting:
        if number < COMPANY_MAX and start_beside(table, job, host, places, milli=GPU_MILLI // (number + 1)):
            number += 1
