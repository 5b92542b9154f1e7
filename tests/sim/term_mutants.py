"""What else may be taken away: limits, retries, true refusals, and the terms of few jobs. See `test_seed_mutants`."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.sim.test_rule_mutants import everywhere

import gangline_core.cycle
import gangline_core.fold.life as life
import gangline_core.fold.pause as pause
from gangline_core import facts as f
from gangline_core.door import terms
from gangline_core.job import Job
from gangline_core.limits.quota import Ledger
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.reserving.windows import Window
from gangline_core.seating import Found, find_seats
from gangline_core.state import State
from gangline_core.step import Step


def limits_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "broken", lambda self, job, amounts: iter(()))
    patch.setattr("gangline_core.room.holds.limit_fault", lambda *args, **fields: None)


def lowered_limits_do_not_hold(patch: pytest.MonkeyPatch) -> None:
    """What was lowered between a decision and its fold counts for nothing."""
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


def who_stands_still_gives_room_at_once(patch: pytest.MonkeyPatch) -> None:
    """As soon as a round has it pause, whatever it does until it stands still."""
    whole = pause.pause_for

    def pause_for(state: State, decided: f.JobPaused, step: Step) -> None:
        whole(state, decided, step)
        job = state.job(decided.job)
        for task in state.tasks_of(job) if job is not None else ():
            pause.task_paused(state, f.TaskPaused(task=task.id), step)

    patch.setattr(pause, "pause_for", pause_for)


USUAL: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "limits are forgotten": limits_are_forgotten,
    "lowered limits do not hold": lowered_limits_do_not_hold,
    "a retry costs nothing": a_retry_costs_nothing,
    "room is said to be none": room_is_said_to_be_none,
}
TERMS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "windows are forgotten": windows_are_forgotten,
    "namesakes run beside each other": namesakes_run_beside_each_other,
    "nobody waits for a time": nobody_waits_for_a_time,
    "who stands still gives room at once": who_stands_still_gives_room_at_once,
}
"""What only later runs can notice, which have such terms."""
