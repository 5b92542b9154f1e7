"""Which waiting jobs does a round look at? The first in order, not too many alike, and who may fare better."""

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from gangline_core import ordering
from gangline_core.equal_runs import run_lengths, run_starts, small
from gangline_core.facts import Candidate
from gangline_core.foresight.run_times import expected_run_ms
from gangline_core.ids import JobId
from gangline_core.scoring.columns import (
    ASK,
    CLASS,
    ESTIMATE_S,
    GROUP,
    ID,
    KIND,
    LEARNT_MS,
    LEVEL,
    LIMIT_S,
    PRIORITY,
    SHAPE,
    SINCE,
    Ints,
)
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
    """The last candidate of each shape of which more wait; None when whole shapes are out of view.

    Those who wait come by id.
    """
    if len(candidates) == len(waiting):
        return ()
    ids, shapes = [candidate.job for candidate in candidates], small(waiting.field(SHAPE))
    own = shapes[np.searchsorted(waiting.ids, ids)]
    last = dict(zip(own.tolist(), ids, strict=True))
    waits = np.bincount(shapes)
    if len(last) != np.count_nonzero(waits):
        return None
    is_edge = waits > np.bincount(own, minlength=len(waits))
    return tuple(sorted(job for shape, job in last.items() if is_edge[shape]))


def _shorter(waiting: Waiting, rows: Ints, places: Ints) -> Iterator[Ints]:
    """Places of jobs out of view that may end before a date though all in view that ask for the same do not.

    Dates below limits are passed by what a job says of its time, others by what is expected of jobs like it; and all by
    its time limit.
    """
    policy = waiting.policy
    if len(places) == len(rows) or not policy.backfill or not policy.backfill_depth:
        return
    is_unseen = np.ones(len(rows), dtype=np.bool_)
    is_unseen[places] = False
    limits = waiting.field(LIMIT_S)[rows]
    limited = np.flatnonzero(limits)
    yield _shortest(limited, limits[limited], waiting.field(ASK)[rows], is_unseen)[: policy.candidates_max]
    is_dated = any(pool.limit_dates for pool in waiting.state.kept.pools.values())
    is_foretold = _tells_apart(waiting)
    if not (is_dated or is_foretold):
        return
    shapes = waiting.field(SHAPE)[rows]
    # Who has a time limit shares it with all of its shape.
    asked = np.flatnonzero(np.isin(shapes, shapes[places]) & (waiting.field(LIMIT_S)[rows] == 0))
    if not is_unseen[asked].any():
        return
    measures = [waiting.field(ESTIMATE_S)[rows[asked]]] if is_dated else []
    measures += [_expected_ms(waiting, rows[asked])] if is_foretold else []
    for lengths in measures:
        yield _shortest(asked[lengths > 0], lengths[lengths > 0], shapes, is_unseen)[: policy.candidates_max]


def _shortest(known: Ints, lengths: Ints, kinds: Ints, is_unseen: NDArray[np.bool_]) -> Ints:
    """Of these places the shortest of each kind, where nobody of it in view is as short; they are in view then."""
    by_length = known[np.lexsort((known, is_unseen[known], lengths, kinds[known]))]
    shortest = by_length[run_starts(kinds[by_length])]
    chosen = np.sort(shortest[is_unseen[shortest]])
    is_unseen[chosen] = False
    return chosen


def _tells_apart(waiting: Waiting) -> bool:
    """True when what is expected of jobs tells some of one shape from others of it."""
    if (waiting.field(LEARNT_MS) >= 0).any():
        return True
    shapes, kinds = small(waiting.field(SHAPE)), waiting.field(KIND)
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

    Those in view may all wait for what is full, while what these ask for idles; or none of them may have others go,
    and these may. Of very many kinds as many as are in view have their turn, other ones in the next rounds: the number
    is that of the rounds until all had it.
    """
    if len(places) == len(rows):
        return np.empty(0, dtype=np.int64), 1
    kinds = kinds_of(waiting)[rows]
    is_seen = np.zeros(int(kinds.max()) + 1, dtype=np.bool_)
    is_seen[kinds[places]] = True
    unseen = np.flatnonzero(~is_seen[kinds])
    if not len(unseen):
        return unseen, 1
    since, ids = (waiting.field(name)[rows[unseen]] for name in (SINCE, ID))
    unseen = unseen[np.lexsort((ids, since))]
    oldest = np.sort(np.unique(kinds[unseen], return_index=True)[1])
    most = waiting.policy.candidates_max
    begin = waiting.pool.rounds * most % len(oldest) if len(oldest) > most else 0
    return unseen[np.roll(oldest, -begin)[:most]], -(-len(oldest) // most)


def kinds_of(waiting: Waiting) -> Ints:
    """A number per job, equal for those who ask for the same and for whom the same others may have to go."""
    kinds = waiting.field(ASK)
    if not waiting.policy.preemption:
        return kinds
    is_owing = any(group.guaranteed for group in waiting.state.kept.groups.values())
    for column in map(waiting.field, (LEVEL, PRIORITY, CLASS, *([GROUP] if is_owing else ()))):
        if bool((column == column[:1]).all()):
            continue
        _, which = np.unique(column, return_inverse=True)
        kinds = np.unique(kinds * (int(which.max()) + 1) + which, return_inverse=True)[1]
    return kinds


def _numbers(values: Ints) -> Ints:
    """Per place, how many equal values stand before it."""
    by_value = np.argsort(values, kind="stable")
    starts = run_starts(values[by_value])
    numbers = np.empty(len(values), dtype=np.int64)
    numbers[by_value] = np.arange(len(values)) - np.repeat(starts, run_lengths(starts, len(values)))
    return numbers
