"""What live tasks count against their groups and users: by dimension over all pools, and as service in each pool."""

from gangline_core.groups import holders
from gangline_core.job import Task
from gangline_core.kept import Kept
from gangline_core.limits.amounts import add_all, count, task_amounts
from gangline_core.making_room.live_index import LiveIndex


class UsageBook:
    """Counts whole tasks in and out; what was used lately is noted in each pool's `past`."""

    def __init__(self, kept: Kept, live: LiveIndex) -> None:
        """Nobody holds anything; `live` hears what changes below whom."""
        self._kept, self._live = kept, live
        self.usage: dict[str, dict[str, int]] = {}
        """Live use per group path (ancestors included) and user_key, by dimension; no zero entries."""
        self.rates: dict[str, dict[str, int]] = {}
        """Per pool what holders of `usage` hold now, as `Task.service_milli` counts it; no zero entries."""
        self.is_restored = False
        """False while what is held is only being worked out, which is no change."""
        self.holds_on = False
        """True while a task that holds the same service as before is counted anew."""

    def charge(self, task: Task, sign: int) -> None:
        """The task holds its room from now on (1), or no longer does (-1)."""
        amounts = [(dimension, sign * amount) for dimension, amount in task_amounts(task).items()]
        own = holders(task.group, task.user)
        self._live.stir_below(own)
        for path in own:
            add_all(self.usage.setdefault(path, {}), amounts)
        job = None if self.holds_on else self._kept.jobs.get(task.job)
        if job is not None:
            self._note_use(job.spec.pool, own, sign * task.service_milli)

    def _note_use(self, pool: str, own: tuple[str, ...], change: int) -> None:
        """Write down that these holders hold so much more or less of the pool from now on."""
        rates = self.rates.setdefault(pool, {})
        for holder in own:
            count(rates, holder, change)
        if self.is_restored:
            self._kept.pools[pool].past.note(own, change, self._kept.at)
