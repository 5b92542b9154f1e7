"""How jobs come in: read, checked against the token, sealed, and asked for in one message."""

import asyncio
from collections.abc import Mapping
from hashlib import sha256

from msgspec import Struct, json
from msgspec.structs import replace

from gangline_core.door.admission import numbered_together, with_time_limit
from gangline_core.door.arrays import as_written, lookup
from gangline_core.door.draft import Draft
from gangline_core.door.edits import edited, terms_of
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_gateway.access import sees_job, submit_barred
from gangline_gateway.asking import denied
from gangline_gateway.call import Answer, Call
from gangline_gateway.followed import hidden
from gangline_gateway.foretell import FORETOLD_MAX, foretold_view
from gangline_gateway.problems import ProblemError, invalid
from gangline_gateway.show import job_view, reason_view
from gangline_kit.tracing import HEADER, is_traceparent
from gangline_wire.fields import join, str_key, unknown_field
from gangline_wire.jobfile import JobFileError, parse_job
from gangline_wire.jobfile_beside import Beside, beside
from gangline_wire.limits import most
from gangline_wire.problem import FieldError
from gangline_wire.quantity import kind_name
from gangline_wire.requests import Admitted, Denied, Refused, SubmitJobs
from gangline_wire.seal import seal
from gangline_wire.views import BatchView, RefusalView, SubmittedView

IDEMPOTENCY_KEY = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
"""Header of an answer that repeats an earlier one."""
TURN_JOBS = 50
"""Jobs read before others may use the loop."""
TOO_MANY = frozenset({ReasonCode.QUEUE_FULL, ReasonCode.SUBMIT_RATE})
"""Refusals that pass by themselves: answered 429."""
TOO_MANY_RETRY_S = 10.0


class Asked(Struct, frozen=True):
    """One job ready to be asked for: sealed, and its secrets."""

    spec: JobSpec
    secrets: dict[str, str]
    path: str = ""
    """Where in the body its file stands."""
    is_short: bool = False
    """True when the fields of its only role stand at the top of the file."""

    def place(self, field: str) -> str:
        """Where in the body a field of the job was written."""
        if self.is_short:
            field = "" if field == "roles" else field.removeprefix("roles[0].")
        return join(self.path, field)


async def submit_one(call: Call) -> Answer:
    """POST /v1/jobs: one job file; 202 when the log holds it."""
    return await _submitted(call, _read(call, await call.document(), path=""))


async def submit_batch(call: Call) -> Answer:
    """POST /v1/jobs:batch: all of the jobs, or none."""
    asked: list[Asked] = []
    errors: list[FieldError] = []
    documents = _documents(await call.document())
    others = beside(documents)
    for index, document in enumerate(documents):
        try:
            asked.append(_read(call, document, path=f"jobs[{index}]", others=others))
            others.before.append(asked[-1].spec)
        except ProblemError as error:
            others.before.append(None)
            errors.extend(error.errors)
            if error.code != "invalid_fields" or len(errors) >= most("errors"):
                break
        if index % TURN_JOBS == TURN_JOBS - 1:
            await asyncio.sleep(0)
    if errors:
        raise ProblemError("invalid_fields", f"{errors[0].path}: {errors[0].message}", errors=errors)
    dry_run = call.flag("dry_run")
    reply = await _ask(call, asked, dry_run=dry_run)
    ids = [0] * len(asked) if dry_run else reply.jobs
    jobs = [_job(call, one.spec, number) for one, number in zip(asked, ids, strict=True)]
    lines = tuple(SubmittedView(id=job.id, name=job.spec.name, state=job.state.value) for job in jobs)
    if dry_run:
        return Answer(BatchView(jobs=await _foretold(call, jobs, lines), repeated=reply.repeated))
    return Answer(BatchView(jobs=lines, repeated=reply.repeated), status=202, headers=_replayed(reply))


async def submit_again(call: Call, spec: JobSpec) -> Answer:
    """The jobs of a known spec once more, for a caller who may submit it; an automatic name is made anew."""
    _check_allowed(call, spec, path="")
    return await _submitted(call, Asked(spec=spec, secrets={}))


async def _submitted(call: Call, asked: Asked) -> Answer:
    """One job, asked for; a dry run tells what would become of it."""
    dry_run = call.flag("dry_run")
    reply = await _ask(call, [asked], dry_run=dry_run)
    job = _job(call, asked.spec, 0 if dry_run else reply.jobs[0])
    view = job_view(call.state, job, tuple(call.state.tasks_of(job)))
    if dry_run:
        call.desk.shares.check(call.caller)
        return Answer(replace(view, foretold=foretold_view(call.state, job.spec, call.desk.site.now_ms())))
    return Answer(view, status=202, headers={"Location": f"/v1/jobs/{job.id}", **_replayed(reply)})


async def _foretold(call: Call, jobs: list[Job], lines: tuple[SubmittedView, ...]) -> tuple[SubmittedView, ...]:
    """The lines with what would become of the first jobs; others have their turn on the loop in between.

    It ends early when the caller has had its share of the gateway's time.
    """
    told = list(lines)
    call.desk.shares.check(call.caller)
    for place, job in enumerate(jobs[:FORETOLD_MAX]):
        if not call.desk.shares.has_some(call.caller):
            break
        behind = next((jobs[one.entry].spec.name for one in job.spec.after if one.entry >= 0), "")
        seen = foretold_view(call.state, job.spec, call.desk.site.now_ms(), behind=behind)
        told[place] = replace(told[place], foretold=seen)
        await asyncio.sleep(0)
    return tuple(told)


def _documents(body: object) -> list[object]:
    """The job files of {"jobs": [...]}.

    Raises:
        ProblemError: something else.
    """
    if not isinstance(body, dict):
        raise invalid("", f'must be a mapping {{"jobs": [...]}}, not {kind_name(body)}')
    for key in body:
        if key != "jobs":
            raise invalid(str_key(key), unknown_field(key, ("jobs",)))
    jobs = body.get("jobs")
    if not isinstance(jobs, list) or not jobs:
        raise invalid("jobs", "must be a list of at least one job")
    if len(jobs) > most("batch_jobs"):
        raise invalid("jobs", f"has {len(jobs)} entries; at most {most('batch_jobs')} are allowed (batch_jobs)")
    return jobs


def _read(call: Call, document: object, *, path: str, others: Beside | None = None) -> Asked:
    """One job file as the caller may submit it.

    Raises:
        ProblemError: fields are wrong, or the token does not allow it.
    """
    try:
        spec = parse_job(document, others)
    except JobFileError as error:
        errors = [FieldError(path=join(path, one.path), message=one.message) for one in error.errors]
        raise ProblemError("invalid_fields", f"{errors[0].path}: {errors[0].message}", errors=errors) from None
    spec = _owned(call, spec, path=path)
    _check_allowed(call, spec, path=path)
    sealed, secrets = seal(spec)
    is_short = isinstance(document, dict) and "roles" not in document
    return Asked(spec=sealed, secrets=secrets, path=path, is_short=is_short)


def _check_allowed(call: Call, spec: JobSpec, *, path: str) -> None:
    """Check that the caller may submit the job, whose file stands at `path` of the body.

    Raises:
        ProblemError: it may not.
    """
    if barred := submit_barred(call.state, call.caller, spec):
        raise ProblemError("forbidden", barred.message, errors=[replace(barred, path=join(path, barred.path))])


def _owned(call: Call, spec: JobSpec, *, path: str) -> JobSpec:
    """The job with the user and the group it is for: the caller's own, where the file does not say.

    Raises:
        ProblemError: the group is not clear.
    """
    user = spec.user or call.caller.user
    group = spec.group
    if not group:
        own = call.caller.groups or tuple(one.group for one in call.state.kept.users.values() if one.name == user)
        if len(own) != 1:
            choice = f"; yours are {', '.join(sorted(own)[:10])}" if own else ""
            raise invalid(join(path, "group"), f"is missing: say for which group the job runs{choice}")
        group = own[0]
    return replace(spec, user=user, group=group)


async def _ask(call: Call, asked: list[Asked], *, dry_run: bool) -> Admitted:
    """Ask admission for all of the jobs.

    Raises:
        ProblemError: refused, key used before for something else, or nobody answers.
    """
    key = _idempotency_key(call)
    secrets = tuple(one.secrets for one in asked)
    header = call.request.headers.get(HEADER, "")
    parent = header if header and is_traceparent(header) else ""
    with call.desk.site.tracing.span("submit", parent, jobs=len(asked)) as trace:
        ask = call.desk.site.ids.name()
        request = SubmitJobs(
            jobs=tuple(one.spec for one in asked),
            submit_id=_submit_id(call, key) if key else ask,
            ask=ask,
            by=call.caller.user,
            secrets=secrets if any(secrets) else (),
            trace=trace,
            dry_run=dry_run,
            hidden=await hidden(call, [one.spec for one in asked]),
        )
        reply = await call.desk.asker.ask(request)
    match reply:
        case Admitted():
            if reply.repeated:
                _check_same(call, asked, reply.jobs)
            return reply
        case Refused():
            raise _refused(call.state, reply, asked)
        case Denied():
            raise denied(reply)
        case _:
            raise ProblemError("internal", f"admission answered {type(reply).__name__}")


def _idempotency_key(call: Call) -> str:
    key = call.request.headers.get(IDEMPOTENCY_KEY, "")
    if key and not (key.isascii() and key.isprintable() and len(key) <= most("idempotency_key_chars")):
        raise ProblemError(
            "malformed_request",
            f"{IDEMPOTENCY_KEY} must be at most {most('idempotency_key_chars')} printable ASCII characters.",
        )
    return key


def _submit_id(call: Call, key: str) -> str:
    """The key as nobody else's: two people of one name in different groups each have their own."""
    caller = call.caller
    whose = json.encode([caller.user, caller.role, sorted(caller.groups), key])
    return f"key:{sha256(whose).hexdigest()}"


def _check_same(call: Call, asked: list[Asked], jobs: tuple[int, ...]) -> None:
    """A repeated key must come with the same jobs, as far as the fold still knows the first ones.

    Raises:
        ProblemError: it does not.
    """
    known = [lookup(call.state, number) for number in jobs]
    specs = numbered_together([one.spec for one in asked], jobs) if len(known) == len(asked) else []
    same = bool(specs) and all(
        job is None or _as_admitted(spec, job) == job.spec for spec, job in zip(specs, known, strict=True)
    )
    if not same:
        shown = [job for job in known if job is not None and sees_job(call.state, call.caller, job.spec)]
        detail = f"It belongs to {'job' if len(jobs) == 1 else 'jobs'} {shown[0].id}." if shown else ""
        raise ProblemError("key_reused", detail)


def _as_admitted(asked: JobSpec, job: Job) -> JobSpec:
    """What was asked for, with what admission fills in where the file says nothing, and what was changed since."""
    admitted = job.spec
    if job.edited:
        asked = edited(asked, terms_of(admitted))
    after = admitted.after if any(dependency.index >= 0 for dependency in asked.after) else asked.after
    limit_s = asked.time_limit_s or admitted.time_limit_s
    return replace(asked, name=asked.name or admitted.name, time_limit_s=limit_s, after=after)


def _refused(state: State, reply: Refused, asked: list[Asked]) -> ProblemError:
    views = [RefusalView(index=one.index, reason=reason_view(state, one.reason, job=0)) for one in reply.refusals]
    errors = [
        FieldError(path=asked[one.index].place(one.field), message=sentence(as_written(state, one.reason)))
        for one in reply.refusals
        if one.field
    ]
    codes = {one.reason.code for one in reply.refusals}
    detail = views[0].reason.sentence if views else ""
    if codes and codes <= TOO_MANY:
        waits = [one.reason.numbers.get("retry_s", 0) for one in reply.refusals]
        retry_s = max((wait for wait in waits if isinstance(wait, int)), default=0) or TOO_MANY_RETRY_S
        return ProblemError("too_many", detail, refusals=views, retry_after_s=float(retry_s))
    code = "conflict" if codes == {ReasonCode.NAME_TAKEN} else "refused"
    return ProblemError(code, detail, errors=errors, refusals=views)


def _job(call: Call, spec: JobSpec, number: int) -> Job:
    """The admitted job: as folded, or as it must be while the fold is behind."""
    known = lookup(call.state, number)
    if known is not None:
        return known
    state = JobState.HELD if spec.hold else JobState.WAITING
    now = call.desk.site.now_ms()
    # What a dry run shows is completed as the door would.
    spec = with_time_limit(call.state, Draft(), spec, by=call.caller.user, at=now)
    named = spec if spec.name else replace(spec, name=f"job-{number}" if number else "")
    return Job(id=JobId(number), spec=named, state=state, submitted_ms=now, queued_ms=now)


def _replayed(reply: Admitted) -> Mapping[str, str]:
    return {REPLAYED: "true"} if reply.repeated else {}
