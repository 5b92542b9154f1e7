"""From some seed on half of all runs have terms that few jobs name, and the dollhouse knows what those promise."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.make import T0, World, group, node, spec

from dollhouse.acts import ACTS
from dollhouse.on_terms import OnTerms
from dollhouse.plan import draw_usual
from dollhouse.play import play
from dollhouse.terms import FIRST_SEED, KINDS, PART, termed
from dollhouse.troubles import TROUBLES
from dollhouse.wider import draw_plan
from gangline_core import facts as f
from gangline_core.fold import apply
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.reserving.windows import Window
from gangline_core.spec import JobSpec
from gangline_core.state import State


def test_half_of_all_runs_are_so_and_earlier_seeds_keep_their_meaning() -> None:
    plans = [draw_usual(seed) for seed in range(FIRST_SEED, FIRST_SEED + 200)]
    more = [termed(plan) for plan in plans]
    share = sum(one.events != plan.events for one, plan in zip(more, plans, strict=True)) / len(plans)
    assert 0.8 * PART < share < 1.2 * PART
    for plan in more:
        assert [event.at_s for event in plan.events] == sorted(event.at_s for event in plan.events)
        assert {event.what for event in plan.events} <= {*TROUBLES, *ACTS}
    assert {event.what for plan in more for event in plan.events} >= set(KINDS)
    earlier = [draw_usual(seed) for seed in range(FIRST_SEED - 200, FIRST_SEED)]
    assert [termed(plan) for plan in earlier] == earlier


def faults_of(world: World) -> list[str]:
    """What is wrong with all that happened."""
    looks, state, faults = OnTerms(), State(), list[str]()
    for message in world.log:
        jobs: dict[JobId, Job] = dict(state.kept.jobs)
        faults += looks.faults(state, message, apply(state, message), jobs)
    return faults


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (spec("one", gpus=1, not_before_ms=T0 + 3_600_000), "too early"),
        (spec("one", gpus=1, not_before_ms=T0), ""),
        (spec("same", gpus=1, singleton=True), "of its name"),
        (spec("other", gpus=1, singleton=True), ""),
    ],
)
def test_nobody_starts_before_its_time_or_beside_its_namesake(asked: JobSpec, fault: str) -> None:
    world = World(node("n1"))
    world.submit_running(spec("same", gpus=1), "n1")
    world.submit_running(asked, "n1")
    found = faults_of(world)
    assert fault in found[0] if fault else not found, found


@pytest.mark.parametrize(
    ("of_window", "asked", "is_kept_out"),
    [
        ({}, {}, True),
        ({"nodes": ("n2",)}, {}, False),
        ({"groups": ("lab",)}, {}, False),
        ({"start_ms": T0 + 60_000}, {"time_limit_s": 20}, False),
        ({"start_ms": T0 + 60_000}, {"time_limit_s": 90}, True),
        ({"end_ms": T0 - 1}, {}, False),
    ],
)
def test_nobody_starts_where_a_window_keeps_it_out(
    of_window: dict[str, Any], asked: dict[str, Any], is_kept_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the fold says of it."""
    monkeypatch.setattr("gangline_core.room.holds.window_fault", lambda state, spec, nodes: None)
    world = World(node("n1"), node("n2"), groups=[group("lab")])
    own = Window(name="w", pool="default", start_ms=T0 - 10, end_ms=T0 + 600_000)
    window = replace(own, **of_window)
    world.tell("admission", f.WindowSet(window=window, by="admin"))
    world.submit_running(spec("one", gpus=1, group="lab", **asked), "n1")
    assert bool(faults_of(world)) == is_kept_out


@pytest.mark.parametrize("firm", [False, True])
def test_nobody_makes_way_whom_none_may_send_away(firm: bool) -> None:
    world = World(node("n1", gpus=1)).set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec("low", gpus=1), "n1")
    world.submit(spec("high", gpus=1, priority=5))
    assert world.round()
    last = world.log[-1]
    before = State()
    for message in world.log[:-1]:
        apply(before, message)
    jobs = {name: replace(job, spec=replace(job.spec, preemptible=not firm)) for name, job in before.kept.jobs.items()}
    assert bool(list(OnTerms().faults(before, last, apply(before, last), jobs))) == firm


@pytest.mark.parametrize("seed", [2_200_000, 2_200_002])
def test_runs_with_such_terms_end_well(seed: int) -> None:
    outcome = play(draw_plan(seed))
    assert outcome.faults == ()
    assert outcome.met["runs alone of its name"]
