"""Each pool's order and forecast, made once for all questions about the same state within a second."""

from collections.abc import Iterable

from msgspec.structs import replace

from gangline_core.job import Job, JobState
from gangline_core.telling.book import Book
from gangline_gateway.call import Call

LISTED_MAX = 2_000
"""Jobs that wait in a pool; of more, lists tell the reasons of its last rounds, since all are put in order for them."""


def book_of(call: Call, pool: str, now: int) -> Book:
    """The pool as the state has it now."""
    moment = (call.state.kept.seq, now // 1000)
    known = call.desk.books.get(pool)
    if known is None or known[0] != moment:
        known = call.desk.books[pool] = (moment, Book(call.state, pool, now))
    return known[1]


def as_now(call: Call, job: Job) -> Job:
    """A job that waits, with its reason as things are now; the recorded one has numbers of when it began to hold."""
    if job.state != JobState.WAITING or job.id not in call.state.waiting.get(job.spec.pool, {}):
        return job
    return replace(job, reason=book_of(call, job.spec.pool, call.desk.site.now_ms()).reason(job))


def all_as_now(call: Call, jobs: Iterable[Job]) -> list[Job]:
    """The same of the jobs of a list, but for those of pools in which very many wait."""
    waiting = call.state.waiting
    return [as_now(call, job) if len(waiting.get(job.spec.pool, {})) <= LISTED_MAX else job for job in jobs]
