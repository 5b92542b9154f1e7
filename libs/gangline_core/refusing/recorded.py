"""Which refusals of a round are recorded: those that say something new, equal ones together."""

from collections.abc import Sequence

from gangline_core.facts import Refusal
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.reasons import Reason

MOVING_NUMBERS = frozenset({"free", "free_on_one_node", "where", "fits_s", "victims"})
"""Numbers that follow every start and end; of a crowd, a change of them alone waits for a round that starts nobody."""
EXACT_MAX = 64
"""Refused jobs of a round that are no crowd: their numbers are always recorded as they are."""


def recorded(refused: Sequence[tuple[Job, Reason]], *, starts_somebody: bool) -> tuple[Refusal, ...]:
    """Refused jobs whose recorded reason is another one, those that share a reason together."""
    is_busy = starts_somebody and len(refused) > EXACT_MAX
    jobs: dict[tuple[object, ...], list[JobId]] = {}
    reasons: dict[tuple[object, ...], Reason] = {}
    keys: dict[int, tuple[object, ...]] = {}
    is_told: dict[tuple[int, int], bool] = {}
    """By what was told and what is: many jobs share both."""
    for job, reason in refused:
        pair = (id(job.reason), id(reason))
        if pair not in is_told:
            is_told[pair] = job.reason == reason or (is_busy and _is_same_cause(job.reason, reason))
        if is_told[pair]:
            continue
        key = keys.get(id(reason))
        if key is None:
            key = keys[id(reason)] = (reason.code, *sorted(reason.numbers.items()))
            reasons.setdefault(key, reason)
        jobs.setdefault(key, []).append(job.id)
    return tuple(Refusal(reason=reasons[key], jobs=tuple(own)) for key, own in jobs.items())


def _is_same_cause(known: Reason | None, reason: Reason) -> bool:
    if known is None or known.code != reason.code:
        return False
    return _steady(known) == _steady(reason)


def _steady(reason: Reason) -> dict[str, int | str]:
    return {name: number for name, number in reason.numbers.items() if name not in MOVING_NUMBERS}
