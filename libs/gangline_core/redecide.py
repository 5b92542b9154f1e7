"""Deciding again what a lane's writer decided, from the same state and time; a replay compares the bytes.

`state` must stand where the writer stood (`seq_seen`). Lanes that carry what was seen in the world (agents, telemetry)
are input and cannot be decided again; on the admission lane the same holds for everything but the judging of jobs.
"""

from collections.abc import Callable, Iterator
from itertools import groupby

from gangline_core import cycle, elasticity, parsync
from gangline_core.door import admission
from gangline_core.facts import Fact, JobAdmitted, JobRejected, LeadershipTaken, RoundDecided, RoundOpened
from gangline_core.limits import accounting
from gangline_core.state import State

Redecide = Callable[[State, str, tuple[Fact, ...], int], tuple[Fact, ...]]


def redecide(state: State, lane: str, facts: tuple[Fact, ...], at: int) -> tuple[Fact, ...] | None:
    """What the writer of this lane should have written; None when the lane carries input, not decisions."""
    kind, _, pool = lane.partition(".")
    decide = DECISIONS.get(kind)
    if decide is None:
        return None
    # A new leader's first message carries no decision, and none may be mixed with it.
    if facts and all(isinstance(fact, LeadershipTaken) for fact in facts):
        return facts
    return decide(state, pool, facts, at)


def _open(state: State, pool: str, facts: tuple[Fact, ...], at: int) -> tuple[Fact, ...]:
    opened = cycle.open_round(state, pool, at)
    return (opened,) if isinstance(opened, RoundOpened) else ()


def _decide(state: State, pool: str, facts: tuple[Fact, ...], at: int) -> tuple[Fact, ...]:
    opened = state.kept.pools[pool].open_round
    decided: tuple[RoundDecided, ...] = () if opened is None else (cycle.decide_round(state, pool, opened.at),)
    return decided


def _share(state: State, pool: str, facts: tuple[Fact, ...], at: int) -> tuple[Fact, ...]:
    """`pool` is "<pool>.<number>", as the lane is spelled."""
    name, _, number = pool.rpartition(".")
    decided = parsync.decide_share(state, name, int(number))
    return () if decided is None else (decided,)


def _propose(state: State, pool: str, facts: tuple[Fact, ...], at: int) -> tuple[Fact, ...]:
    return elasticity.propose(state, pool, at)


def _charge(state: State, pool: str, facts: tuple[Fact, ...], at: int) -> tuple[Fact, ...]:
    return accounting.charge(state, at)


def _judge(state: State, pool: str, facts: tuple[Fact, ...], at: int) -> tuple[Fact, ...]:
    """Requests are rebuilt from what was admitted or rejected; settings and acts are input and pass through."""
    draft = admission.Draft()
    judged: list[Fact] = []
    for submit_id, group in groupby(facts, key=_submit_of):
        own = tuple(group)
        judged.extend(own if submit_id is None else _judge_one(state, draft, own, at))
    return tuple(judged)


def _judge_one(state: State, draft: admission.Draft, facts: tuple[Fact, ...], at: int) -> Iterator[Fact]:
    submits = [fact for fact in facts if isinstance(fact, JobAdmitted | JobRejected)]
    first = submits[0]
    if isinstance(first, JobRejected) and first.of != len(submits):
        # The jobs that nothing was wrong with are not written, so the request cannot be judged as it was.
        yield from facts
        return
    judgement = admission.judge_submit(
        state,
        draft,
        specs=[fact.spec for fact in submits],
        submit_id=first.submit_id,
        by=first.by,
        trace=first.trace if isinstance(first, JobAdmitted) else "",
        at=at,
        ask=first.ask if isinstance(first, JobRejected) else "",
    )
    yield from judgement.facts


def _submit_of(fact: Fact) -> str | None:
    return fact.submit_id if isinstance(fact, JobAdmitted | JobRejected) else None


DECISIONS: dict[str, Redecide] = {
    "admission": _judge,
    "queue": _open,
    "placement": _decide,
    "scheduler": _share,
    "elastic": _propose,
    "accounting": _charge,
}
"""Kind of lane -> how its decisions are made again."""
