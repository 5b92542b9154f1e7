"""Which waiting jobs does a round look at? The first in order, not too many alike, and who may fare better."""

from collections.abc import Collection, Iterator

import numpy as np

from gangline_core import ordering
from gangline_core.equal_runs import run_lengths, run_starts
from gangline_core.facts import Candidate
from gangline_core.foresight.run_times import expected_run_ms
from gangline_core.ids import JobId
from gangline_core.scoring.columns import ASK, ESTIMATE_S, ID, KIND, LEARNT_MS, LIMIT_S, SHAPE, SINCE, Ints
from gangline_core.scoring.waiting import Waiting


def in_view(waiting: Waiting, always: Collection[JobId]) -> tuple[tuple[str, ...], tuple[Candidate, ...], int]:
    """Names of the terms, and the first candidates in order: not too many of one shape, but `always` these.

    Of more of one shape none fares better, unless it ends sooner than all in view: the shortest come behind these. The
    number says how many rounds it takes until one of all who ask for something else was looked at.
    """
    policy, first = waiting.policy, waiting.policy.candidates_max
    while True:
        ranking = ordering.rank(waiting, first)
        first = max(first, ranking.exact)
        chosen = _numbers(waiting.field(SHAPE)[ranking.rows[:first]]) < policy.candidates_per_shape
        if always:
            chosen |= np.isin(ranking.ids[:first], sorted(always))
        places = np.flatnonzero(chosen)[: policy.candidates_max]
        if len(places) == policy.candidates_max or first >= len(waiting):
            places = np.concatenate((places, *_shorter(waiting, ranking.rows, places)))
            others, looks = _unlike(waiting, ranking.rows, places)
            places = np.concatenate((places, others))
            return ranking.terms, tuple(ranking.candidates(places)), looks
        first *= 2


def edges_of(waiting: Waiting, candidates: tuple[Candidate, ...]) -> tuple[JobId, ...] | None:
    """The last candidate of each shape of which more wait; None when whole shapes are out of view."""
    if len(candidates) == len(waiting):
        return ()
    shape_of = waiting.state.shapes
    left = dict(zip(*(part.tolist() for part in np.unique(waiting.field(SHAPE), return_counts=True)), strict=True))
    last: dict[int, JobId] = {}
    for candidate in candidates:
        shape = shape_of[candidate.job]
        left[shape] -= 1
        last[shape] = candidate.job
    if left.keys() != last.keys():
        return None
    return tuple(sorted(job for shape, job in last.items() if left[shape]))


def _shorter(waiting: Waiting, rows: Ints, places: Ints) -> Iterator[Ints]:
    """Places of jobs out of view that may end before a date though all of their shape in view do not.

    Dates below limits are passed by what a job says of its time, others by what is expected of jobs like it.
    """
    policy = waiting.policy
    if len(places) == len(rows) or not policy.backfill or not policy.backfill_depth:
        return
    is_dated = any(pool.limit_dates for pool in waiting.state.kept.pools.values())
    is_foretold = _tells_apart(waiting)
    if not (is_dated or is_foretold):
        return
    is_unseen = np.ones(len(rows), dtype=np.bool_)
    is_unseen[places] = False
    shapes = waiting.field(SHAPE)[rows]
    # Who has a time limit shares it with all of its shape.
    asked = np.flatnonzero(np.isin(shapes, shapes[places]) & (waiting.field(LIMIT_S)[rows] == 0))
    if not is_unseen[asked].any():
        return
    measures = [waiting.field(ESTIMATE_S)[rows[asked]]] if is_dated else []
    measures += [_expected_ms(waiting, rows[asked])] if is_foretold else []
    for lengths in measures:
        known, length = asked[lengths > 0], lengths[lengths > 0]
        by_length = known[np.lexsort((known, is_unseen[known], length, shapes[known]))]
        shortest = by_length[run_starts(shapes[by_length])]
        chosen = shortest[is_unseen[shortest]]
        is_unseen[chosen] = False
        yield np.sort(chosen)[: policy.candidates_max]


def _tells_apart(waiting: Waiting) -> bool:
    """True when what is expected of jobs tells some of one shape from others of it."""
    if (waiting.field(LEARNT_MS) >= 0).any():
        return True
    shapes, kinds = waiting.field(SHAPE), waiting.field(KIND)
    kind_of = np.zeros(int(shapes.max()) + 1, dtype=np.int64)
    kind_of[shapes] = kinds
    return bool((kinds != kind_of[shapes]).any())


def _expected_ms(waiting: Waiting, rows: Ints) -> Ints:
    """How long jobs like each of these took; 0 where nobody knows."""
    jobs, names, known = waiting.state.kept.jobs, waiting.columns.alike, dict[int, int]()
    kinds, learnt_ms = waiting.field(KIND)[rows].tolist(), waiting.field(LEARNT_MS)[rows]
    for kind, job in zip(kinds, waiting.ids[rows].tolist(), strict=True):
        if kind not in known:
            known[kind] = expected_run_ms(waiting.state, jobs[JobId(job)], waiting.policy, names=names[kind])
    of_kinds = np.array([known[kind] for kind in kinds], dtype=np.int64)
    return np.where(learnt_ms >= 0, learnt_ms, of_kinds)


def _unlike(waiting: Waiting, rows: Ints, places: Ints) -> tuple[Ints, int]:
    """Places of jobs out of view that ask for what nobody in view does: of each kind the oldest, oldest first.

    Those in view may all wait for what is full, while what these ask for idles. Of very many kinds as many as are in
    view have their turn, other ones in the next rounds: the number is that of the rounds until all had it.
    """
    if len(places) == len(rows):
        return np.empty(0, dtype=np.int64), 1
    asks = waiting.field(ASK)[rows]
    is_seen = np.zeros(int(asks.max()) + 1, dtype=np.bool_)
    is_seen[asks[places]] = True
    unseen = np.flatnonzero(~is_seen[asks])
    if not len(unseen):
        return unseen, 1
    since, ids = (waiting.field(name)[rows[unseen]] for name in (SINCE, ID))
    unseen = unseen[np.lexsort((ids, since))]
    oldest = np.sort(np.unique(asks[unseen], return_index=True)[1])
    most = waiting.policy.candidates_max
    begin = waiting.pool.rounds * most % len(oldest) if len(oldest) > most else 0
    return unseen[np.roll(oldest, -begin)[:most]], -(-len(oldest) // most)


def _numbers(values: Ints) -> Ints:
    """Per place, how many equal values stand before it."""
    by_value = np.argsort(values, kind="stable")
    starts = run_starts(values[by_value])
    numbers = np.empty(len(values), dtype=np.int64)
    numbers[by_value] = np.arange(len(values)) - np.repeat(starts, run_lengths(starts, len(values)))
    return numbers
