"""Data cut into shards that independent workers take one by one, so that workers may come, go and be lost.

After ElasticDL (sql-machine-learning/elasticdl, its task manager): shards are cut per data set, wait in a list, and are
given to whoever asks. One that a worker could not do goes back to the list, at most RETRIES times; what a lost worker
was doing goes back, however often. A worker that has one for much longer than any took so far counts as lost: longer
than OVERDUE_S and than OVERDUE_TIMES the longest. Nothing is lost and nothing is counted as done twice.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

RETRIES = 3
OVERDUE_S, OVERDUE_TIMES = 300.0, 3


class Shard(Struct, frozen=True):
    """Records `start` to `end`, without the last, of a data set."""

    number: int
    name: str
    start: int
    end: int


class Doing(Struct, frozen=True):
    """A shard that somebody works on."""

    shard: Shard
    worker: str
    since_s: float


def cut(records: Mapping[str, int], *, per_shard: int) -> Iterator[Shard]:
    """All shards of data sets of so many records, in the order of the mapping; the last of each may be shorter."""
    number = 0
    for name, count in records.items():
        for start in range(0, count, per_shard):
            yield Shard(number=number, name=name, start=start, end=min(count, start + per_shard))
            number += 1


class ShardList:
    """Which shards wait, which are being done, and which are done."""

    def __init__(self, shards: Iterable[Shard], done: Iterable[int] = ()) -> None:
        """All of them wait, but those that were done before."""
        self.done = set(done)
        self.todo = deque(shard for shard in shards if shard.number not in self.done)
        self.doing: dict[int, Doing] = {}
        self.failed: dict[int, int] = {}
        """How often each shard could not be done."""
        self.given_up: list[Shard] = []
        self.longest_s = 0.0

    @property
    def is_over(self) -> bool:
        """True when nothing is left to do, nor being done."""
        return not self.todo and not self.doing

    def take(self, worker: str, now_s: float) -> Shard | None:
        """The next shard for a worker; None when none waits, which need not be the end: one may come back."""
        if not self.todo:
            return None
        shard = self.todo.popleft()
        self.doing[shard.number] = Doing(shard=shard, worker=worker, since_s=now_s)
        return shard

    def finish(self, number: int, worker: str, now_s: float) -> bool:
        """A worker did a shard; False when it is not its own any more, and another one does or did it."""
        doing = self.doing.get(number)
        if doing is None or doing.worker != worker:
            return False
        del self.doing[number]
        self.done.add(number)
        self.longest_s = max(self.longest_s, now_s - doing.since_s)
        return True

    def fail(self, number: int, worker: str) -> bool:
        """A worker could not do a shard: it waits again, or is given up; False when it was not its own."""
        doing = self.doing.get(number)
        if doing is None or doing.worker != worker:
            return False
        del self.doing[number]
        self.failed[number] = self.failed.get(number, 0) + 1
        if self.failed[number] > RETRIES:
            self.given_up.append(doing.shard)
        else:
            self.todo.append(doing.shard)
        return True

    def lose(self, worker: str) -> list[Shard]:
        """A worker is gone: what it was doing waits again, in front."""
        back = [doing.shard for doing in self.doing.values() if doing.worker == worker]
        for shard in sorted(back, key=lambda shard: -shard.number):
            del self.doing[shard.number]
            self.todo.appendleft(shard)
        return back

    def overdue(self, now_s: float) -> list[str]:
        """Workers that have had a shard for too long."""
        limit_s = max(OVERDUE_S, OVERDUE_TIMES * self.longest_s)
        return sorted({doing.worker for doing in self.doing.values() if now_s - doing.since_s > limit_s})
