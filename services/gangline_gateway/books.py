"""Each pool's order and forecast, made once for all questions about the same state within a second."""

from msgspec.structs import replace

from gangline_core.job import Job, JobState
from gangline_core.telling.book import Book
from gangline_gateway.call import Call

WAITING_MAX = 2_000
"""Jobs that wait in a pool; of more, jobs and lists have the reasons of its last rounds, since all are put in order for
those of now. Who asks why a job waits is told how things are now in any case."""


def book_of(call: Call, pool: str, now: int) -> Book:
    """The pool as the state has it now."""
    moment = (call.state.kept.seq, now // 1000)
    known = call.desk.books.get(pool)
    if known is None or known[0] != moment:
        known = call.desk.books[pool] = (moment, Book(call.state, pool, now))
    return known[1]


def as_now(call: Call, job: Job) -> Job:
    """A job that waits, with its reason as things are now; the recorded one has numbers of when it began to hold."""
    waiting = call.state.waiting.get(job.spec.pool, {})
    if job.state != JobState.WAITING or job.id not in waiting or len(waiting) > WAITING_MAX:
        return job
    return replace(job, reason=book_of(call, job.spec.pool, call.desk.site.now_ms()).reason(job))
