"""Opportunistic jobs in the time that others leave of their GPUs, and in all of it once these are gone: AntMan.

Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning", OSDI 2020: an opportunistic job that finds no
room starts at once on the GPUs of one that is not, those that are least busy first; it has none of their time in books
and bills, and its limit follows the steps of the owner (see `elasticity.limits`). When the owner ends, the guest is
promoted: it goes on where it is, and all of the time is its own. A job that is not opportunistic and finds no room
takes the GPUs of one that is, which stays as its guest, before anybody is evicted for it.

Here owner and guest ask for the same places, so that a guest has one owner, and an owner one guest.
"""

from gangline_core.job import Job
from gangline_core.making_room.preemption import Preemptor
from gangline_core.reserving.passing import may_pass
from gangline_core.sharing.alone import Alone
from gangline_core.sharing.beside import GUESTS, can_share, is_opportunistic
from gangline_core.sharing.minding import BUSY_PERCENT, UNKNOWN, measured_percent
from gangline_core.sharing.stages import stages_of
from gangline_core.spec import GPU_MILLI
from gangline_core.state import State
from gangline_core.table import Table


class Guests:
    """Who in one round could be somebody's guest, or has to become one."""

    def __init__(self, table: Table, preemptor: Preemptor) -> None:
        """Of this round."""
        self._table, self._alone = table, Alone(table, preemptor)
        self._is_on = table.policy.sharing == GUESTS

    def starts_with_one(self, job: Job) -> bool:
        """True when the job starts on the GPUs of an opportunistic one, which becomes its guest."""
        if is_opportunistic(job) or not self._may(job) or not _has_guests(self._table.state, job):
            return False
        hosts = (host for host in self._alone.hosts(job) if is_opportunistic(host))
        return any(self._alone.join(job, host, milli=GPU_MILLI) for host in hosts)

    def starts_as_one(self, job: Job) -> bool:
        """True when the opportunistic job starts in the time that another one leaves."""
        if not is_opportunistic(job) or not self._may(job):
            return False
        state = self._table.state
        owners = [one for one in self._alone.hosts(job) if not is_opportunistic(one) and _has_guests(state, one)]
        owners.sort(key=lambda one: gpu_percent(state, one))
        return any(self._alone.join(job, owner, milli=0) for owner in owners)

    def _may(self, job: Job) -> bool:
        return self._is_on and can_share(job) and may_pass(self._table, job)


def _has_guests(state: State, job: Job) -> bool:
    return UNKNOWN < gpu_percent(state, job) < BUSY_PERCENT


def gpu_percent(state: State, job: Job) -> int:
    """How busy a job keeps its GPUs: as measured of it or of jobs like it, else as its stages say; -1 is unknown."""
    measured, stages = measured_percent(state, job), stages_of(job.spec)
    if measured != UNKNOWN or stages is None:
        return measured
    return min(100, 100 * stages.compute_us // stages.iteration_us)
