"""How jobs are read and steered: list, one, cancel, hold, release, history."""

from bisect import bisect_right

from msgspec import Struct

from gangline_core.door.arrays import whole
from gangline_core.job import ENDS, Job, JobState
from gangline_gateway.access import is_head, sees_job, visible_job
from gangline_gateway.books import as_now
from gangline_gateway.call import Answer, Call, read_flag, read_why
from gangline_gateway.cursor import make_cursor, read_cursor
from gangline_gateway.problems import ProblemError, not_found, wrong_query
from gangline_gateway.show import job_view
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_wire import subjects
from gangline_wire.codec import decode, encode
from gangline_wire.requests import CancelJob, Denied, History, JobHistory, SetHold
from gangline_wire.views import DoneView, HistoryView, JobPage, JobView

PAGE_DEFAULT = 100
SCAN_MAX = 20_000
"""Jobs looked at for one page; a page may be short and still have a next one."""
HISTORY_S_MAX = 5.0
STATE_SETS = {"unfinished": frozenset(JobState) - ENDS, "ended": ENDS}
"""Names for several states."""


class Filters(Struct, frozen=True):
    """Which jobs a list shows; what is empty does not filter."""

    states: frozenset[JobState] = frozenset()
    group: str = ""
    user: str = ""
    pool: str = ""
    name: str = ""
    labels: tuple[tuple[str, str | None], ...] = ()
    array: int = 0

    def fits(self, job: Job) -> bool:
        """True when the job is one of them."""
        spec = job.spec
        return (
            (not self.states or job.state in self.states)
            and (not self.group or spec.group == self.group or spec.group.startswith(f"{self.group}/"))
            and (not self.user or spec.user == self.user)
            and (not self.pool or spec.pool == self.pool)
            and (not self.name or spec.name == self.name)
            and (not self.array or self.array in (job.array, job.id))
            and all(key in spec.labels and value in (None, spec.labels[key]) for key, value in self.labels)
        )


async def list_jobs(call: Call) -> JobPage:
    """GET /v1/jobs: the caller's jobs in id order."""
    filters = _filters(call)
    is_newest_first = _order(call)
    question = "&".join(
        f"{name}={call.text(name)}" for name in ("state", "group", "user", "pool", "name", "label", "array", "order")
    )
    limit = call.count("limit", PAGE_DEFAULT, least=1, limit="page_jobs")
    after = read_cursor(call.text("cursor"), caller=call.caller.digest, question=question)
    found, last = _page(call, filters, after=int(after or 0), limit=limit, is_newest_first=is_newest_first)
    following = make_cursor(str(last), caller=call.caller.digest, question=question) if last else ""
    return JobPage(
        jobs=tuple(job_view(call.state, job) for job in (as_now(call, one) for one in found)), next=following
    )


def _page(call: Call, filters: Filters, *, after: int, limit: int, is_newest_first: bool) -> tuple[list[Job], int]:
    """Up to `limit` jobs after the given id, and the id after which to go on (0 at the end)."""
    state, caller = call.state, call.caller
    jobs = state.kept.jobs
    ids = sorted([*jobs, *state.kept.arrays])
    if is_newest_first:
        ids = ids[: bisect_right(ids, after - 1)] if after else ids
        ids.reverse()
    else:
        ids = ids[bisect_right(ids, after) :]
    found: list[Job] = []
    for number in ids[:SCAN_MAX]:
        job = jobs.get(number) or whole(state, state.kept.arrays[number])
        if filters.fits(job) and sees_job(state, caller, job.spec):
            found.append(job)
            if len(found) == limit:
                return found, 0 if number == ids[-1] else number
    return found, ids[SCAN_MAX - 1] if len(ids) > SCAN_MAX else 0


async def get_job(call: Call) -> JobView:
    """GET /v1/jobs/{id}."""
    job = shown_job(call)
    return job_view(call.state, as_now(call, job), tuple(call.state.tasks_of(job)))


async def cancel_job(call: Call) -> Answer:
    """DELETE /v1/jobs/{id} and POST /v1/jobs/{id}/cancel."""
    job = steered_job(call)
    why = read_why(await call.document(may_be_empty=True)) if call.request.method == "POST" else call.text("why")
    if job.state == JobState.CANCELLED:
        # A repeated cancel wants what already is.
        return Answer(DoneView(), status=202)
    reply = await call.desk.asker.change(CancelJob(job=job.id, by=call.caller.user, why=why))
    return Answer(DoneView(seq=reply.seq), status=202)


async def hold_job(call: Call) -> Answer:
    """POST /v1/jobs/{id}/hold: a waiting job is held, a running one suspended."""
    return await _set_hold(call, held=True)


async def release_job(call: Call) -> Answer:
    """POST /v1/jobs/{id}/release."""
    return await _set_hold(call, held=False)


async def suspend_job(call: Call) -> Answer:
    """POST /v1/jobs/{id}/suspend: paused where it is if it may be, unless `stop` wants its room back."""
    job = steered_job(call)
    stop = read_flag(await call.document(may_be_empty=True), "stop")
    reply = await call.desk.asker.change(SetHold(job=job.id, held=True, by=call.caller.user, pause=not stop))
    return Answer(DoneView(seq=reply.seq), status=202)


async def resume_job(call: Call) -> Answer:
    """POST /v1/jobs/{id}/resume: an `urgent` one has lower jobs on its GPUs paused."""
    job = steered_job(call)
    urgent = read_flag(await call.document(may_be_empty=True), "urgent")
    reply = await call.desk.asker.change(SetHold(job=job.id, held=False, by=call.caller.user, urgent=urgent))
    return Answer(DoneView(seq=reply.seq), status=202)


async def _set_hold(call: Call, *, held: bool) -> Answer:
    job = steered_job(call)
    read_why(await call.document(may_be_empty=True))
    reply = await call.desk.asker.change(SetHold(job=job.id, held=held, by=call.caller.user))
    return Answer(DoneView(seq=reply.seq), status=202)


async def job_history(call: Call) -> HistoryView:
    """GET /v1/jobs/{id}/history: asked of the recorder."""
    job = shown_job(call)
    question = encode(JobHistory(job=job.id))
    try:
        data = await call.desk.site.bus.request(subjects.API_HISTORY, question, timeout_s=HISTORY_S_MAX)
    except TemporaryError as error:
        raise ProblemError("unavailable", f"The recorder does not answer. {error}", retry_after_s=2.0) from None
    except PermanentError as error:
        raise ProblemError("internal", str(error)) from error
    reply = decode(data, History | Denied)  # type: ignore[arg-type]  # a union is a valid type for msgspec
    if isinstance(reply, Denied):
        raise not_found(f"history of job {job.id}")
    return HistoryView(job=job.id, events=reply.events, left_out=reply.left_out, left_out_after=reply.left_out_after)


def shown_job(call: Call) -> Job:
    """The job of the address.

    Raises:
        ProblemError: it does not exist, or the caller may not know that it does.
    """
    job = visible_job(call.state, call.caller, call.number("id"))
    if job is None:
        raise not_found("such job")
    return job


def steered_job(call: Call) -> Job:
    """The job of the address, for a caller who may change it.

    Raises:
        ProblemError: as `shown_job`, or the caller may only look at it.
    """
    job = shown_job(call)
    caller = call.caller
    if not caller.may_change:
        raise ProblemError("forbidden", "A read-only token changes nothing.")
    if caller.is_admin or caller.user == job.spec.user or is_head(call.state, caller, job.spec.group):
        return job
    raise ProblemError("forbidden", "Only its user, a head of its group or an administrator may do this.")


def _filters(call: Call) -> Filters:
    return Filters(
        states=_states(call),
        group=call.text("group"),
        user=call.text("user"),
        pool=call.text("pool"),
        name=call.text("name"),
        array=_array(call),
        labels=tuple(_label(part) for part in call.text("label").split(",") if part),
    )


def _states(call: Call) -> frozenset[JobState]:
    states: set[JobState] = set()
    for word in filter(None, call.text("state").split(",")):
        if word in STATE_SETS:
            states |= STATE_SETS[word]
            continue
        try:
            states.add(JobState(word))
        except ValueError:
            names = ", ".join([*JobState, *STATE_SETS])
            raise wrong_query("state", f"must be some of {names}") from None
    return frozenset(states)


def _label(part: str) -> tuple[str, str | None]:
    key, equals, value = part.partition("=")
    return key, value if equals else None


def _array(call: Call) -> int:
    text = call.text("array")
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise wrong_query("array", "must be the number of an array")
    return int(text or 0)


def _order(call: Call) -> bool:
    order = call.text("order", "asc")
    if order not in ("asc", "desc"):
        raise wrong_query("order", 'must be "asc" or "desc"')
    return order == "desc"
