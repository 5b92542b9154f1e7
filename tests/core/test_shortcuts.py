"""Shortcuts change nothing: with each of them switched off, rounds of drawn days are decided as they are with it.

Jobs come in small families that ask for the same and differ in what a shortcut could forget: how long they run, by when
they end, whether they preempt, how long they take to go.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import asdict, replace
from tests.make import SECOND, World, group, node, spec

from gangline_core import cycle, table
from gangline_core import facts as f
from gangline_core.fold import Message, apply
from gangline_core.groups import BudgetMode
from gangline_core.job import JobState
from gangline_core.limits import gates
from gangline_core.making_room import preemption
from gangline_core.making_room.cheapest import plan_cost
from gangline_core.making_room.preemption import Preemptor
from gangline_core.refusing.crowd import Crowd
from gangline_core.refusing.refusals import Refuser
from gangline_core.reserving.releases import Releases
from gangline_core.reserving.windows import Window
from gangline_core.spec import JobSpec, ServiceClass
from gangline_core.state import State, decode_snapshot, encode_snapshot
from gangline_core.wake import next_wake_ms

POOL = "default"
SEEDS = (1, 7, 25, 52)
STEPS = 20
NO_BOUNDS = ((preemption, "IN_VAIN_MAX", 1 << 30), (preemption, "PLANS_MAX", 1 << 30))
"""Who is looked at in long is counted among those for whom there is no plan."""
ALL_LOOKED_AT = (Crowd, "_is_open", lambda self: False)
SHORTCUTS: dict[str, tuple[tuple[object, str, Any], ...]] = {
    "who is refused in passing": (ALL_LOOKED_AT,),
    "who could go is too little": ((preemption, "is_short", lambda *_: False),),
    "no date before there are enough GPUs": ((Releases, "soonest", lambda *_: 0),),
    "a placer that need not be asked": ((table, "unless_hopeless", lambda placer: placer),),
    "room that was sought in vain": (ALL_LOOKED_AT, (Refuser, "no_room", lambda *_: None)),
    "who counts the same below limits": (*NO_BOUNDS, (Refuser, "limited", lambda *_: None)),
    "equal jobs": (*NO_BOUNDS, ALL_LOOKED_AT, (Refuser, "known", lambda *_: None)),
}
CLASSES = (ServiceClass.BURSTABLE, ServiceClass.BURSTABLE, ServiceClass.GUARANTEED, ServiceClass.OPPORTUNISTIC)


def policy(dice: Random) -> dict[str, Any]:
    """How a pool decides for a while."""
    return {
        "ordering": dice.choice(["fifo", "weighted", "priority", "least_attained", "fair_share"]),
        "placement": dice.choice(["default", "default", "topology", "spread", "fgd"]),
        "preemption": dice.random() < 0.7,
        "shrink": dice.random() < 0.7,
        "backfill": dice.random() < 0.9,
        "backfill_depth": dice.choice([0, 1, 1, 3]),
        "starvation_s": dice.choice([0, 300, 2000]),
        "service_thresholds": dice.choice([(600,), (100, 1000)]),
        "oldest_preempts": dice.random() < 0.3,
        "sinks_last": dice.random() < 0.3,
        "yield_after_gpu_s": dice.choice([57_600, 200]),
        "yield_run_s": 60,
    }


def limits(dice: Random) -> dict[str, Any]:
    """What a group may use."""
    found: dict[str, Any] = dice.choice([{}, {"limit": {"gpu_milli": 3000}}, {"limit": {"jobs": 2}}])
    if dice.random() < 0.3:
        found = {**found, "guaranteed": {"gpu_milli": 2000}}
    if dice.random() < 0.2:
        found = {**found, "budget_gpu_hours": 2, "budget_mode": BudgetMode.SAFE}
    return found


def family(dice: Random, now: int) -> Iterator[JobSpec]:
    """Jobs that ask for the same, up to four."""
    asks: dict[str, Any] = {
        "gpus": dice.choice([1, 1, 2, 4, 0.5, 0]),
        "tasks": dice.choice([1, 1, 1, 2]),
        "group": dice.choice(["lab", "lab/a", "shop"]),
        "user": dice.choice(["ada", "bob"]),
        "service_class": dice.choice(CLASSES),
    }
    own = {
        "priority": lambda: dice.choice([0, 0, 5]),
        "preempts": lambda: dice.random() < 0.7,
        "preemptible": lambda: dice.random() < 0.85,
        "checkpoints": lambda: dice.random() < 0.3,
        "time_limit_s": lambda: dice.choice([0, 0, 100, 3000]),
        "estimate_s": lambda: dice.choice([0, 50, 5000]),
        "grace_s": lambda: dice.choice([1, 30, 600]),
        "protected_s": lambda: dice.choice([0, 0, 0, 200]),
        "deadline_ms": lambda: dice.choice([0, 0, 0, now + 4000 * SECOND]),
    }
    first = spec(dice.choice(["short", "long"]), **asks, **{name: draw() for name, draw in own.items()})
    for _ in range(dice.choice([1, 1, 2, 4])):
        yield first
        name = dice.choice(sorted(own))
        first = replace(first, name=dice.choice(["short", "long"]), **{name: own[name]()})


def happen(dice: Random, world: World) -> None:
    """One thing happens."""
    draw, running = dice.random(), world.in_state(JobState.RUNNING)
    if draw < 0.55:
        world.submit(*family(dice, world.at))
    elif draw < 0.8 and running:
        world.finish(dice.choice(running))
    elif draw < 0.86:
        machine = world.state.kept.nodes[dice.choice(sorted(world.state.kept.nodes))]
        world.tell("admission", f.DrainSet(node=machine.id, drained=not machine.drained, by="admin"))
    elif draw < 0.91:
        world.tell("admission", f.GroupSet(group=group(dice.choice(["lab", "shop"]), **limits(dice)), by="admin"))
    elif draw < 0.95:
        world.set_policy(**policy(dice))
    elif "kept" in world.state.kept.windows:
        world.tell("admission", f.WindowRemoved(name="kept", by="admin"))
    else:
        begin_ms = world.at + dice.choice([-100, 1000]) * SECOND
        window = Window(name="kept", pool=POOL, start_ms=begin_ms, end_ms=begin_ms + 900 * SECOND)
        world.tell("admission", f.WindowSet(window=window, by="admin"))


def looks(world: World, dice: Random, *, is_woken: bool = False) -> Iterator[World]:
    """Rounds until none is due: the world before each is opened, and before it is decided."""
    for _ in range(30):
        world.stop_all().start(*world.in_state(JobState.STARTING), *world.in_state(JobState.RESIZING))
        if not is_woken and not cycle.round_due(world.state, POOL):
            return
        is_woken = False
        yield world
        opened = cycle.open_round(world.state, POOL, world.at)
        if opened is None:
            return
        world.tell(f"queue.{POOL}", opened)
        yield world
        world.tell(f"placement.{POOL}", cycle.decide_round(world.state, POOL, world.at))
    raise AssertionError("never at rest")


def day(seed: int) -> Iterator[World]:
    """A world again and again: before rounds are opened, before they are decided, and when none is due."""
    dice = Random(seed)
    machines = [node(f"n{k}", gpus=dice.choice([1, 2, 4, 8]), cpus=16) for k in range(dice.choice([1, 2, 3]))]
    world = World(*machines, groups=[group(path, **limits(dice)) for path in ("lab", "lab/a", "shop")])
    world.set_policy(**policy(dice))
    for _ in range(STEPS):
        happen(dice, world)
        yield from looks(world, dice)
        yield world
        until = world.at + dice.choice([0, 10, 60, 300, 1500]) * SECOND
        while (woken := next_wake_ms(world.state, POOL, world.at)) is not None and woken <= until:
            world.at = woken
            yield from looks(world, dice, is_woken=True)
        world.at = until


def decided(state: State, now: int) -> f.RoundDecided:
    """What the open round comes to."""
    return cycle.decide_round(state, POOL, now)


def rounds(seed: int) -> Iterator[World]:
    """Those moments of a day at which a round is open."""
    return (world for world in day(seed) if world.state.kept.pools[POOL].open_round is not None)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_shortcut_a_round_is_decided_as_with_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for world in rounds(seed):
        as_it_is = decided(world.state, world.at)
        with monkeypatch.context() as patched:
            for bound in NO_BOUNDS:
                patched.setattr(*bound)
            unbounded = decided(world.state, world.at)
        for name, shortcut in SHORTCUTS.items():
            with monkeypatch.context() as patched:
                for one in shortcut:
                    patched.setattr(*one)
                long, short = decided(world.state, world.at), unbounded if NO_BOUNDS[0] in shortcut else as_it_is
            # Who is equal is told the same reason, be another one as true by now.
            assert replace(long, refusals=()) == replace(short, refusals=()), name
            assert long.refusals == short.refusals or name == "equal jobs", name


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_kept_from_round_to_round_is_what_a_restart_works_out(seed: int) -> None:
    for world in day(seed):
        again = decode_snapshot(encode_snapshot(world.state))
        if world.state.kept.pools[POOL].open_round is not None:
            assert decided(world.state, world.at) == decided(again, world.at)
        else:
            assert cycle.open_round(world.state, POOL, world.at) == cycle.open_round(again, POOL, world.at)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_job_is_let_in_or_kept_out_as_if_nobody_else_had_been_judged(seed: int) -> None:
    for world in day(seed):
        state, memos = world.state, dict(world.state.gate_memos)
        verdicts = gates.judge(state, POOL, world.at)
        told = verdicts.kept_out | verdicts.given_up
        for job in world.waiting():
            state.gate_memos.clear()
            assert gates.Gate(state, POOL, world.at).reason(job) == told.get(job.id)
        state.gate_memos.update(memos)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_costs_least_alone_is_never_dearer_than_what_all_sets_tell(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_of = Preemptor._within_guarantees

    def both(self: Preemptor, *asked: Any, is_owed: bool) -> preemption.Plan | None:
        before = self._tries.left
        with monkeypatch.context() as patched:
            patched.setattr(preemption, "cheapest_alone", lambda *_: None)
            long = plan_of(self, *asked, is_owed=is_owed)
        self._tries.left = before
        short, pool = plan_of(self, *asked, is_owed=is_owed), self._table.pool.pool
        assert (short is None) == (long is None)
        if short is not None and long is not None:
            assert plan_cost(pool, short.losses)[0] <= plan_cost(pool, long.losses)[0]
            assert self._keeps(asked[0], short.losses) or not self._keeps(asked[0], long.losses)
        return short

    monkeypatch.setattr(Preemptor, "_within_guarantees", both)
    for world in rounds(seed):
        decided(world.state, world.at)


@pytest.mark.parametrize("seed", SEEDS)
def test_time_alone_brings_nothing_about_before_somebody_looks_again(seed: int) -> None:
    dice = Random(seed)
    for world in day(seed):
        known = world.state.kept.pools[POOL]
        woken = next_wake_ms(world.state, POOL, known.decided_at) or world.at + 100_000 * SECOND
        if known.open_round is not None or cycle.round_due(world.state, POOL) or woken <= world.at:
            continue
        # What a round leaves for the next one to make use of waits for what happens next.
        if acts(world.state, world.at):
            continue
        for moment in {woken - 1, dice.randrange(world.at, woken)}:
            assert not acts(world.state, moment)


def acts(state: State, now: int) -> dict[str, Any]:
    """What a round at this moment would bring about, beside reasons and dates."""
    state = decode_snapshot(encode_snapshot(state))
    opened = cycle.open_round(state, POOL, now, somebody_comes=True)
    assert opened is not None
    message = Message(seq=state.kept.seq + 1, lane=f"queue.{POOL}", epoch=1, at=now, facts=(opened,), raw=b"")
    apply(state, message, strict=True)
    told = {"pool", "round", "refusals", "reservations", "limit_dates", "unplaced", "unseen", "digest", "heads"}
    found = {name: what for name, what in asdict(decided(state, now)).items() if name not in told and what}
    return {**found, "given_up": opened.given_up} if opened.given_up else found
