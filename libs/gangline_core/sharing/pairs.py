"""Two jobs on the same GPUs until one of them ends: Lucid's rule of pairs.

Hu et al., "Lucid: A Non-intrusive, Scalable and Interpretable Scheduler for Deep Learning Training Jobs", ASPLOS 2023:
each job has a sharing score (see `minding`). A job of up to eight GPUs starts on those of one that has as many and has
them alone, if their scores add up to no more than 2, their memory fits, and it is expected to take no more than twice
the GPU time of its partner. Of several partners the one that has worked longest is taken; who finds none starts alone.
"""

from collections.abc import Hashable, Sequence
from functools import cached_property

from gangline_core.facts import TaskPlacement
from gangline_core.ids import JobId
from gangline_core.job import Job, Task
from gangline_core.making_room.preemption import Preemptor
from gangline_core.pauses.pausing import companions
from gangline_core.reserving.passing import may_pass
from gangline_core.sharing.beside import PAIRS, can_share, is_at_work, shape_of
from gangline_core.sharing.minding import SCORES_MOST, sharing_score
from gangline_core.sharing.starting import start_beside
from gangline_core.spec import GPU_MILLI, gpu_milli_wanted
from gangline_core.table import Table

WIDEST_MILLI = 8 * GPU_MILLI
"""Wider jobs share with nobody."""
LONGER_MOST = 2
"""A newcomer is expected to take no more than so many times the GPU time of its partner."""


class Pairs:
    """Who in one round could share GPUs with somebody who starts."""

    def __init__(self, table: Table, preemptor: Preemptor) -> None:
        """Of this round; nobody is looked at yet."""
        self._table, self._preemptor = table, preemptor
        self._is_on = table.policy.sharing == PAIRS
        self._scores: dict[JobId, int] = {}
        self._places: dict[JobId, Sequence[Task | TaskPlacement]] = {}
        """Where they work who have their GPUs alone."""
        self._seen = 0
        """Of this round's placements so many were looked at."""

    def starts(self, job: Job) -> bool:
        """True when the job starts beside one with whom it makes a pair."""
        if not self._is_on or not can_share(job) or gpu_milli_wanted(job.spec) > WIDEST_MILLI:
            return False
        if not may_pass(self._table, job):
            # Its partner's GPUs come back later for it.
            return False
        length, own = self._gpu_time(job), self._score(job)
        return any(
            self._joins(job, host)
            for host in self._hosts(job)
            if own + self._score(host) <= SCORES_MOST and 0 < length <= LONGER_MOST * self._gpu_time(host)
        )

    def _joins(self, job: Job, host: Job) -> bool:
        started = start_beside(self._table, job, host.id, self._places[host.id], number=2)
        if started:
            self._preemptor.spare(host.id)
            self._alone[shape_of(host.spec)].remove(host)
        return started

    def _hosts(self, job: Job) -> list[Job]:
        """Jobs of the same shape that have their GPUs alone and are not told to go in this round; the oldest first."""
        table = self._table
        for placed in table.placements[self._seen :]:
            host = table.state.kept.jobs[placed.job]
            if not placed.beside and can_share(host):
                self._enter(self._alone, host, placed.tasks)
        self._seen = len(table.placements)
        going = {eviction.job for eviction in table.evictions} | {pause.job for pause in table.pauses}
        leaving = table.leaving.union(*(held.alive for held in table.held))
        alike = self._alone.get(shape_of(job.spec), ())
        return [host for host in alike if host.id not in going and leaving.isdisjoint(host.tasks)]

    def _gpu_time(self, job: Job) -> int:
        """What the job is expected to take of GPUs, in GPU thousandths times ms; 0 where nobody knows."""
        return (self._table.run_ms(job) or 0) * gpu_milli_wanted(job.spec)

    def _score(self, job: Job) -> int:
        known = self._scores.get(job.id)
        if known is None:
            known = self._scores[job.id] = sharing_score(self._table.state, job)
        return known

    @cached_property
    def _alone(self) -> dict[Hashable, list[Job]]:
        """By shape, who has GPUs alone, the oldest there first."""
        state, found = self._table.state, dict[Hashable, list[Job]]()
        live = (state.kept.jobs[name] for name in sorted(state.live.get(self._table.pool.pool.name, {})))
        alone = [job for job in live if can_share(job) and is_at_work(state, job) and not companions(state, job.id)]
        for job in sorted(alone, key=lambda one: min(task.placed_ms for task in state.tasks_of(one))):
            self._enter(found, job, state.tasks_of(job))
        return found

    def _enter(self, alone: dict[Hashable, list[Job]], host: Job, places: Sequence[Task | TaskPlacement]) -> None:
        alone.setdefault(shape_of(host.spec), []).append(host)
        self._places[host.id] = places
