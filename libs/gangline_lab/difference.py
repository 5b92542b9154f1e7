"""Where two decisions differ: the first differing place, both sides, and the state around them."""

import json
from typing import Any

from msgspec import Struct

from gangline_core.facts import Fact
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.reasons import sentence
from gangline_core.state import State
from gangline_wire.codec import decode_batch, encode

JOBS_SHOWN = 12
"""Most jobs of the state around a difference that are shown."""


class JobLine(Struct, frozen=True):
    """One job that a differing decision speaks of, as it stood."""

    job: int
    state: str
    pool: str
    attempt: int
    queued_ms: int
    reason: str


class StateAround(Struct, frozen=True):
    """The state on which both sides were decided."""

    seq: int
    digest: str
    waiting: dict[str, int]
    """Waiting jobs per pool."""
    open_rounds: dict[str, int]
    """Number of the open round per pool, for pools that have one."""
    live_tasks: int
    nodes: int
    jobs: tuple[JobLine, ...]


class Difference(Struct, frozen=True):
    """A decision that came out otherwise than it was written."""

    seq: int
    lane: str
    seq_seen: int
    at: int
    path: str
    """First place that differs, such as "facts[0].placements[2].tasks[0].node"."""
    written_here: str
    decided_here: str
    written: str
    """All facts as written, canonical JSON."""
    decided: str
    state: StateAround


def compare(state: State, written: Message, decided: tuple[Fact, ...]) -> Difference | None:
    """None when the canonical bytes are equal."""
    left, right = encode(written.facts), encode(decided)
    if left == right:
        return None
    was, now = json.loads(left), json.loads(right)
    path, here, there = first_difference(was, now, "facts")
    return Difference(
        seq=written.seq,
        lane=written.lane,
        seq_seen=decode_batch(written.raw).seq_seen,
        at=written.at,
        path=path,
        written_here=here,
        decided_here=there,
        written=left.decode(),
        decided=right.decode(),
        state=_around(state, _jobs_named(was), _jobs_named(now)),
    )


def first_difference(left: Any, right: Any, path: str) -> tuple[str, str, str]:
    """Path and both values of the first place at which two JSON values differ; absent is "(absent)"."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            if key not in left or key not in right or left[key] != right[key]:
                return _inside(left.get(key, _ABSENT), right.get(key, _ABSENT), f"{path}.{key}")
    if isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            here = left[index] if index < len(left) else _ABSENT
            there = right[index] if index < len(right) else _ABSENT
            if here is _ABSENT or there is _ABSENT or here != there:
                return _inside(here, there, f"{path}[{index}]")
    return path, _text(left), _text(right)


_ABSENT = object()


def _inside(left: Any, right: Any, path: str) -> tuple[str, str, str]:
    if type(left) is type(right) and isinstance(left, dict | list):
        return first_difference(left, right, path)
    return path, _text(left), _text(right)


def _text(value: object) -> str:
    return "(absent)" if value is _ABSENT else json.dumps(value, sort_keys=True)


def _jobs_named(value: Any) -> set[int]:
    """Ids of the jobs that facts, as JSON, speak of."""
    if isinstance(value, list):
        return set().union(*map(_jobs_named, value))
    if not isinstance(value, dict):
        return set()
    named: set[int] = set()
    for key, inside in value.items():
        match key, inside:
            case (("job" | "beneficiary"), int()):
                named.add(inside)
            case (("jobs" | "claims_dropped"), list()):
                named.update(inside)
            case "candidates", list():
                named.update(candidate[0] for candidate in inside)
            case _:
                named |= _jobs_named(inside)
    return named


def _around(state: State, written: set[int], decided: set[int]) -> StateAround:
    kept = state.kept
    # Jobs that only one side speaks of come first: the difference is most often about them.
    named = [*sorted(written ^ decided), *sorted(written & decided)]
    known = [kept.jobs[JobId(job)] for job in named if job in kept.jobs]
    return StateAround(
        seq=kept.seq,
        digest=kept.digest,
        waiting={pool: len(jobs) for pool, jobs in sorted(state.waiting.items())},
        open_rounds={name: pool.rounds for name, pool in sorted(kept.pools.items()) if pool.open_round is not None},
        live_tasks=len(kept.tasks),
        nodes=len(kept.nodes),
        jobs=tuple(_line(job) for job in known[:JOBS_SHOWN]),
    )


def _line(job: Job) -> JobLine:
    return JobLine(
        job=job.id,
        state=job.state,
        pool=job.spec.pool,
        attempt=job.attempt,
        queued_ms=job.queued_ms,
        reason=sentence(job.reason) if job.reason is not None else "",
    )
