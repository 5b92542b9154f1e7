"""Who in one round has GPUs alone, so that another job of its shape may start there beside it."""

from collections.abc import Hashable, Sequence
from functools import cached_property

from gangline_core.facts import TaskPlacement
from gangline_core.ids import JobId
from gangline_core.job import Job, Task
from gangline_core.making_room.preemption import Preemptor
from gangline_core.pauses.pausing import companions
from gangline_core.sharing.beside import can_share, is_at_work, shape_of
from gangline_core.sharing.starting import start_beside
from gangline_core.table import Table


class Alone:
    """Jobs that share with nobody yet; those that start in the round come to them."""

    def __init__(self, table: Table, preemptor: Preemptor) -> None:
        """Of this round; nobody is looked at yet."""
        self._table, self._preemptor = table, preemptor
        self._places: dict[JobId, Sequence[Task | TaskPlacement]] = {}
        self._seen = 0
        """Of this round's placements so many were looked at."""

    def hosts(self, job: Job) -> list[Job]:
        """Those of the job's shape that are not told to go in this round; the oldest there first."""
        table = self._table
        for placed in table.placements[self._seen :]:
            host = table.state.kept.jobs[placed.job]
            if not placed.beside and can_share(host):
                self._enter(self._by_shape, host, placed.tasks)
        self._seen = len(table.placements)
        going = {eviction.job for eviction in table.evictions} | {pause.job for pause in table.pauses}
        leaving = table.leaving.union(*(held.alive for held in table.held))
        alike = self._by_shape.get(shape_of(job.spec), ())
        return [host for host in alike if host.id not in going and leaving.isdisjoint(host.tasks)]

    def join(self, job: Job, host: Job, *, milli: int) -> bool:
        """The job starts beside this one, with so much of the time of their GPUs; False where something else lacks."""
        started = start_beside(self._table, job, host.id, self._places[host.id], milli=milli)
        if started:
            self._preemptor.spare(host.id)
            self._by_shape[shape_of(host.spec)].remove(host)
        return started

    @cached_property
    def _by_shape(self) -> dict[Hashable, list[Job]]:
        state, found = self._table.state, dict[Hashable, list[Job]]()
        live = (state.kept.jobs[name] for name in sorted(state.live.get(self._table.pool.pool.name, {})))
        alone = [job for job in live if can_share(job) and is_at_work(state, job) and not companions(state, job.id)]
        for job in sorted(alone, key=lambda one: min(task.placed_ms for task in state.tasks_of(one))):
            self._enter(found, job, state.tasks_of(job))
        return found

    def _enter(self, alone: dict[Hashable, list[Job]], host: Job, places: Sequence[Task | TaskPlacement]) -> None:
        alone.setdefault(shape_of(host.spec), []).append(host)
        self._places[host.id] = places
