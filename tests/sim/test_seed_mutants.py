"""Random runs see what they are for: each check and fence that is taken away is noticed by the run of some seed.

`test_mutants`, `test_log_mutants` and `test_rule_mutants` play stories made for each of them; here nobody prepares
anything. `SEEDS` names for each mutant the first seed that notices it; after a change of what is drawn
`FIND_SEEDS=1 python -m pytest tests/sim/test_seed_mutants.py -s` says them anew. Where much must come together it is
looked for among runs that draw just that (`dollhouse.rare`).
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.sim.term_mutants import TERMS, USUAL
from tests.sim.test_log_mutants import MUTANTS as OF_LOG
from tests.sim.test_mutants import MUTANTS
from tests.sim.test_rule_mutants import RULES, everywhere

import gangline_core.cycle
import gangline_core.fold as fold
import gangline_core.limits.accounting as accounting
import gangline_core.wake
import gangline_kit.follower
from dollhouse.plan import FLEETS, Ask, Plan
from dollhouse.play import play
from dollhouse.policies import EARLIER, FIRST_SHORT_SEED
from dollhouse.pressed import FIRST_SEED as FIRST_PRESSED_SEED
from dollhouse.rare import FIRST_SEED, KINDS, kind_of
from dollhouse.reaped import FIRST_SEED as FIRST_REAPED_SEED
from dollhouse.saving import FIRST_TOLD_SEED
from dollhouse.terms import FIRST_SEED as FIRST_TERMS_SEED
from dollhouse.wider import draw_plan
from gangline_admission.vault import Vault
from gangline_core import facts as f
from gangline_core.cluster import NodeUse
from gangline_core.door import terms
from gangline_core.door.array_record import ArrayRecord
from gangline_core.limits.gates import Gate
from gangline_core.room import mig

Damage = Callable[[pytest.MonkeyPatch], None]
EVENTS_MOST = 30
"""Longer runs are passed over."""
TRIES = 40
SEEDS_MOST = 2_000
LEASES = "leases cut off whom they cut off before"
"""Only runs of later seeds have leases that are short enough to notice it."""
LEAVING = "nobody looks again at who leaves"
NEEDS_LESS = "nobody asks who needs less"
ENDED, EXCUSED = "supervisors are ended for ever", "closed nodes excuse nobody"
"""Only runs of the last ones have machines that do so."""
"""Only runs of still later ones have enough that hangs as it ends."""


async def nothing(self: object, *args: object) -> None:
    return None


def budgets_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gate, "_budget_reason", lambda self, job: None)
    patch.setattr("gangline_core.room.holds.budget_fault", lambda state, job, placement: None)


def deadlines_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, terms.deadline_reason, lambda spec, now: None)


def arrays_know_no_most(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ArrayRecord, "at_most", property(lambda self: 0))


def slices_begin_anywhere(patch: pytest.MonkeyPatch) -> None:
    """A slice of a card takes the lowest slots there are, whether they are taken or not."""
    whole = mig._table

    def table(name: str, profile: str) -> tuple[list[int | None], list[int]]:
        starts, counts = whole(name, profile)
        first = next((start for start in reversed(starts) if start is not None), None)
        return [first for _ in starts], counts

    patch.setattr(mig, "_table", table)
    patch.setattr("gangline_core.fold.jobs.placement_fault", lambda state, placement: None)


def secrets_are_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Vault, "_delete", nothing)


def secrets_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Vault, "keep", nothing)


def decisions_are_not_looked_at_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("gangline_core.fold.jobs.placement_fault", lambda state, placement: None)


def snapshots_forget_submits(patch: pytest.MonkeyPatch) -> None:
    whole = gangline_kit.follower.decode

    def decode(data: bytes) -> Any:
        head, state = whole(data)
        state.kept.submits.clear()
        return head, state

    patch.setattr(gangline_kit.follower, "decode", decode)


def charges_are_written_twice(patch: pytest.MonkeyPatch) -> None:
    whole = accounting.charge

    def charge(state: Any, now: int) -> Any:
        found = whole(state, now)
        return (*found, *(fact for fact in found if isinstance(fact, f.UsageCharged)))

    everywhere(patch, whole, charge)
    handler = fold.HANDLERS[f.UsageCharged]

    def charged(state: Any, fact: Any, step: Any) -> None:
        handler(state, fact, step)
        state.kept.uncharged.setdefault(fact.task, fact)
        handler(state, fact, step)

    patch.setitem(fold.HANDLERS, f.UsageCharged, charged)


def deciding(patch: pytest.MonkeyPatch, change: Callable[[f.RoundDecided], f.RoundDecided]) -> None:
    whole = gangline_core.cycle.decide_round
    patch.setattr(gangline_core.cycle, "decide_round", lambda state, pool, now: change(whole(state, pool, now)))


def nobody_is_promised_the_room_of_victims(patch: pytest.MonkeyPatch) -> None:
    deciding(patch, lambda decided: replace(decided, claims=()))


def gangs_start_in_part(patch: pytest.MonkeyPatch) -> None:
    def cut(decided: f.RoundDecided) -> f.RoundDecided:
        return replace(decided, placements=tuple(replace(one, tasks=one.tasks[:1]) for one in decided.placements))

    deciding(patch, cut)
    patch.setattr("gangline_core.fold.jobs.placement_fault", lambda state, placement: None)


def nobody_is_told_why(patch: pytest.MonkeyPatch) -> None:
    deciding(patch, lambda decided: replace(decided, refusals=()))


def rounds_have_no_end(patch: pytest.MonkeyPatch) -> None:
    """While somebody waits there is always something that time alone may change soon."""

    def soon(state: Any, pool: str, now: int) -> int | None:
        return now + 50 if state.waiting.get(pool) else None

    everywhere(patch, gangline_core.wake.next_wake_ms, soon)


def nobody_looks_again_at_who_leaves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gangline_core.wake, "_leaving_since", lambda state, pool: iter(()))
    # Neither when it should be gone, nor when nobody waits for it any more: a time that is over calls for no look.
    for name in ("overdue_ms", "hangs_until_ms"):
        patch.setattr(gangline_core.wake, name, lambda state, task: 0)


def use_is_one_too_high(patch: pytest.MonkeyPatch) -> None:
    whole = NodeUse.add

    def add(self: NodeUse, task: Any, sign: int) -> None:
        whole(self, task, sign)
        self.cpu_milli += sign > 0

    patch.setattr(NodeUse, "add", add)


def usage_is_one_too_high(patch: pytest.MonkeyPatch) -> None:
    whole = fold.HANDLERS[f.TaskStarted]

    def started(state: Any, fact: Any, step: Any) -> None:
        whole(state, fact, step)
        for used in state.usage.values():
            used["gpu_milli"] = used.get("gpu_milli", 0) + 1
            break

    patch.setitem(fold.HANDLERS, f.TaskStarted, started)


MORE: dict[str, Damage] = {
    "budgets are forgotten": budgets_are_forgotten,
    "deadlines are forgotten": deadlines_are_forgotten,
    "arrays know no most": arrays_know_no_most,
    "slices begin anywhere": slices_begin_anywhere,
    "secrets are kept for ever": secrets_are_kept_for_ever,
    "secrets are not kept": secrets_are_not_kept,
    "decisions are not looked at again": decisions_are_not_looked_at_again,
    "snapshots forget submits": snapshots_forget_submits,
    "charges are written twice": charges_are_written_twice,
    "nobody is promised the room of victims": nobody_is_promised_the_room_of_victims,
    "gangs start in part": gangs_start_in_part,
    "nobody is told why": nobody_is_told_why,
    "rounds have no end": rounds_have_no_end,
    LEAVING: nobody_looks_again_at_who_leaves,
    "use is one too high": use_is_one_too_high,
    "usage is one too high": usage_is_one_too_high,
}
DAMAGES: dict[str, Damage] = {
    **{name: damage for name, (damage, _) in MUTANTS.items()},
    **{name: damage for name, (damage, _) in OF_LOG.items()},
    **{name: damage for name, (damage, _) in RULES.items()},
    **MORE,
    **USUAL,
    **TERMS,
}
NEEDS: dict[str, Callable[[Plan], bool]] = {
    "budgets are forgotten": lambda plan: sum(event.what == "budget" for event in plan.events) > 1,
    "deadlines are forgotten": lambda plan: _asked(plan, lambda ask: ask.due_s > 0) > 1,
    "arrays know no most": lambda plan: _asked(plan, lambda ask: ask.array > ask.at_most > 0) > 1,
    "slices begin anywhere": lambda plan: plan.cut > 0 and _asked(plan, lambda ask: bool(ask.mig)) > 1,
    "secrets are kept for ever": lambda plan: _asked(plan, lambda ask: ask.secret) > 0,
    "secrets are not kept": lambda plan: _asked(plan, lambda ask: ask.secret) > 0,
    "decisions are not looked at again": lambda plan: any(event.what == "meddle" for event in plan.events),
    "held jobs wait on": lambda plan: any(one.what == "meddle" and one.number % 4 == 1 for one in plan.events),
    "drained nodes take work": lambda plan: any(
        drain.what == "drain" and one.what == "submit" and drain.at_s < one.at_s < drain.at_s + drain.seconds - 5
        for drain in plan.events
        for one in plan.events
    ),
    "nobody is protected": lambda plan: (
        _asked(plan, lambda ask: ask.protected_s > 0 and ask.run_s > 30) > 4
        and _asked(plan, lambda ask: ask.priority > 1 and ask.gpu_milli >= 2000) > 4
    ),
    "nobody is left to work": lambda plan: (
        any(one.what == "policy" and one.number // 54 % 2 and one.number // 9 % 3 for one in plan.events)
        and _asked(plan, lambda ask: ask.priority > 0 and ask.gpu_milli >= 1000) > 3
    ),
    LEASES: lambda plan: any(event.what == "ordered" and event.number >= len(EARLIER) for event in plan.events),
    "no level is required": lambda plan: _asked(plan, lambda ask: ask.topology != "" and ask.tasks > 1) > 4,
    "the agent stays when cut off": lambda plan: _long(plan, "swallow") or _long(plan, "cut"),
    "jobs stay on failed cards": lambda plan: any(event.what == "gpu" for event in plan.events),
    "failed cards are used": lambda plan: any(event.what == "gpu" for event in plan.events),
    NEEDS_LESS: lambda plan: any(event.what == "saves" for event in plan.events),
    ENDED: lambda plan: any(event.what == "reap" for event in plan.events),
    EXCUSED: lambda plan: any(event.what == "reap" for event in plan.events),
}
"""What must be in a run that may notice; only to look for less long."""
RARE = {
    "nobody waits for quota": "a full group",
    "an ending job grows on": "growing",
    "nothing is told late": "a dying recorder",
    "snapshots need not be past it": "a short log",
    "a fold goes past holes": "a short log",
    "the archive need not reach": "a short log",
}
"""What the first seeds do not notice, and which of the rare kinds of run does."""
SEEDS = {
    "no expected sequence": 7,
    "no epoch": 0,
    "no room check": 7,
    "room comes back at exit": 0,
    "the agent stays when cut off": 66,
    "decisions depend on the moment": 0,
    "a key counts for nothing": 0,
    "drained nodes take work": 119,
    "jobs do not wait for others": 0,
    "nobody is protected": 1829,
    "nobody is left to work": 732,
    "age counts everywhere": 71,
    NEEDS_LESS: 1_800_179,
    LEASES: 1_500_034,
    ENDED: 1_700_206,
    EXCUSED: 1_700_006,
    "no level is required": 23,
    "cancelled jobs run on": 13,
    "held jobs wait on": 70,
    "failure is success": 0,
    "a time limit is success": 0,
    "a loss costs a retry": 0,
    "failed cards are used": 0,
    "jobs stay on failed cards": 0,
    "charges are one too high": 0,
    "budgets are forgotten": 72,
    "deadlines are forgotten": 43,
    "arrays know no most": 7,
    "slices begin anywhere": 25,
    "secrets are kept for ever": 7,
    "secrets are not kept": 7,
    "decisions are not looked at again": 49,
    "snapshots forget submits": 0,
    "charges are written twice": 0,
    "nobody is promised the room of victims": 2,
    "gangs start in part": 0,
    "nobody is told why": 16,
    LEAVING: 1_600_071,
    "use is one too high": 0,
    "usage is one too high": 0,
    "rounds have no end": 16,
    "nobody waits for quota": 1_300_032,
    "an ending job grows on": 1_300_013,
    "limits are forgotten": 8,
    "lowered limits do not hold": 19,
    "a retry costs nothing": 0,
    "room is said to be none": 0,
    "windows are forgotten": 2_200_002,
    "namesakes run beside each other": 2_200_002,
    "nobody waits for a time": 2_200_000,
    "who stands still gives room at once": 2_200_017,
    "nothing is told late": 1_300_001,
    "snapshots need not be past it": 1_300_060,
    "a fold goes past holes": 1_300_079,
    "the archive need not reach": 1_300_004,
}


def _asked(plan: Plan, has: Callable[[Ask], bool]) -> int:
    return sum(has(ask) for event in plan.events for ask in event.asks)


def _long(plan: Plan, what: str) -> bool:
    return any(event.what == what and event.who in FLEETS and event.seconds > 25 for event in plan.events)


def may_notice(name: str, plan: Plan) -> bool:
    if name in RARE:
        return kind_of(plan.seed) == RARE[name]
    may_be_long = name == LEAVING or name in TERMS
    return (may_be_long or len(plan.events) <= EVENTS_MOST) and NEEDS.get(name, lambda _: True)(plan)


def seeds_for(name: str) -> range:
    later = {LEASES: FIRST_SHORT_SEED, LEAVING: FIRST_PRESSED_SEED} | dict.fromkeys((ENDED, EXCUSED), FIRST_REAPED_SEED)
    later |= {NEEDS_LESS: FIRST_TOLD_SEED} | dict.fromkeys(TERMS, FIRST_TERMS_SEED)
    first = FIRST_SEED if name in RARE else later.get(name, 0)
    return range(first, first + SEEDS_MOST)


def notices(damage: Damage, seed: int) -> tuple[str, ...]:
    with pytest.MonkeyPatch.context() as patch:
        damage(patch)
        return play(draw_plan(seed)).faults


@pytest.mark.skipif("FIND_SEEDS" not in os.environ, reason="looks for the seeds that notice, which takes long")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", DAMAGES)
def test_find_the_first_seed_that_notices(name: str) -> None:
    for seed in [seed for seed in seeds_for(name) if may_notice(name, draw_plan(seed))][:TRIES]:
        faults = notices(DAMAGES[name], seed)
        if faults:
            print(f'    "{name}": {seed},  # {faults[0][:100]}', flush=True)  # noqa: T201 - it is what was looked for
            return
    pytest.fail("no seed notices")


@pytest.mark.parametrize("name", SEEDS)
def test_a_random_run_notices_what_is_taken_away(name: str) -> None:
    assert notices(DAMAGES[name], SEEDS[name])


@pytest.mark.parametrize("seed", sorted(set(SEEDS.values())))
def test_the_random_runs_that_notice_it_are_sound(seed: int) -> None:
    assert play(draw_plan(seed)).faults == ()


def test_each_mutant_has_a_seed() -> None:
    assert set(SEEDS) == set(DAMAGES)
    assert set(RARE) < set(SEEDS)
    assert set(RARE.values()) == set(KINDS)
