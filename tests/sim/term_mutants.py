"""What else may be taken away: limits, retries, true refusals, and the terms of few jobs. See `test_seed_mutants`."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.sim.test_rule_mutants import everywhere

import gangline_core.cycle
import gangline_core.fold.life as life
from gangline_core.door import terms
from gangline_core.job import Job
from gangline_core.limits.quota import Ledger
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.reserving.windows import Window
from gangline_core.seating import Found, find_seats
from gangline_core.state import State


def limits_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "broken", lambda self, job, amounts: iter(()))
    patch.setattr("gangline_core.room.holds.limit_fault", lambda *args, **fields: None)


def a_retry_costs_nothing(patch: pytest.MonkeyPatch) -> None:
    def replaced(job: Job, **fields: Any) -> Job:
        fields.pop("retries_used", None)
        return replace(job, **fields)

    patch.setattr(life, "replace", replaced)


def room_is_said_to_be_none(patch: pytest.MonkeyPatch) -> None:
    """Some jobs find no seats, and are told what would be the reason if there were none."""

    def found(seating: Any, job: Job, room: Any) -> Found | Reason | None:
        return None if job.id % 7 == 3 else find_seats(seating, job, room)

    patch.setattr(gangline_core.cycle, "find_seats", found)


def windows_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Window, "hits", lambda self, now, end_ms: False)


def namesakes_run_beside_each_other(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(terms, "singleton_reason", lambda state, job: None)


def nobody_waits_for_a_time(patch: pytest.MonkeyPatch) -> None:
    whole = terms.terms_reason

    def terms_reason(state: State, job: Job, now: int) -> Reason | None:
        reason = whole(state, job, now)
        return None if reason is not None and reason.code == ReasonCode.NOT_BEFORE else reason

    everywhere(patch, whole, terms_reason)


USUAL: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "limits are forgotten": limits_are_forgotten,
    "a retry costs nothing": a_retry_costs_nothing,
    "room is said to be none": room_is_said_to_be_none,
}
TERMS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "windows are forgotten": windows_are_forgotten,
    "namesakes run beside each other": namesakes_run_beside_each_other,
    "nobody waits for a time": nobody_waits_for_a_time,
}
"""What only later runs can notice, which have such terms."""
