"""Two jobs on the same GPUs until one of them ends: Lucid's rule of pairs.

Hu et al., "Lucid: A Non-intrusive, Scalable and Interpretable Scheduler for Deep Learning Training Jobs", ASPLOS 2023:
each job has a sharing score (see `minding`). A job of up to eight GPUs starts on those of one that has as many and has
them alone, if their scores add up to no more than 2, their memory fits, and it is expected to take no more than twice
the GPU time of its partner. Of several partners the one that has worked longest is taken; who finds none starts alone.
"""

from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.making_room.preemption import Preemptor
from gangline_core.reserving.passing import may_pass
from gangline_core.sharing.alone import Alone
from gangline_core.sharing.beside import PAIRS, can_share
from gangline_core.sharing.minding import SCORES_MOST, sharing_score
from gangline_core.spec import GPU_MILLI, gpu_milli_wanted
from gangline_core.table import Table

WIDEST_MILLI = 8 * GPU_MILLI
"""Wider jobs share with nobody."""
LONGER_MOST = 2
"""A newcomer is expected to take no more than so many times the GPU time of its partner."""


class Pairs:
    """Who in one round could share GPUs with somebody who starts."""

    def __init__(self, table: Table, preemptor: Preemptor) -> None:
        """Of this round."""
        self._table, self._alone = table, Alone(table, preemptor)
        self._is_on = table.policy.sharing == PAIRS
        self._scores: dict[JobId, int] = {}

    def starts(self, job: Job) -> bool:
        """True when the job starts beside one with whom it makes a pair."""
        if not self._is_on or not can_share(job) or gpu_milli_wanted(job.spec) > WIDEST_MILLI:
            return False
        if not may_pass(self._table, job):
            # Its partner's GPUs come back later for it.
            return False
        length, own = self._gpu_time(job), self._score(job)
        return any(
            self._alone.join(job, host, milli=GPU_MILLI // 2)
            for host in self._alone.hosts(job)
            if own + self._score(host) <= SCORES_MOST and 0 < length <= LONGER_MOST * self._gpu_time(host)
        )

    def _gpu_time(self, job: Job) -> int:
        """What the job is expected to take of GPUs, in GPU thousandths times ms; 0 where nobody knows."""
        return (self._table.run_ms(job) or 0) * gpu_milli_wanted(job.spec)

    def _score(self, job: Job) -> int:
        known = self._scores.get(job.id)
        if known is None:
            known = self._scores[job.id] = sharing_score(self._table.state, job)
        return known
