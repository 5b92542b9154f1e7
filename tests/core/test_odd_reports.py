"""Whatever numbers a job reports or has in its attributes, every policy decides, and others are none the worse."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import World, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.elasticity import POLICIES
from gangline_core.elasticity.view import Target, View
from gangline_core.sizes.progress import Point, Progress
from gangline_wire.contract import Report, progress

HUGE = st.one_of(
    st.integers(0, 64), st.sampled_from([1 << 31, 1 << 53, (1 << 63) - 1, 1 << 64, 10**30]), st.integers(0, 10**40)
)
ODD = st.one_of(
    st.integers(-(10**30), 10**30), st.floats(allow_nan=True, allow_infinity=True), st.text(max_size=3), st.booleans()
)
NAMES = ("batch_size", "batch_size_max", "batch_member_min", "batch_member_max", "accumulates", "speed_A100")


@settings(max_examples=60, deadline=None)
@given(
    policy=st.sampled_from(sorted(POLICIES)),
    attributes=st.dictionaries(st.sampled_from(NAMES), ODD),
    batch=HUGE, gathered=HUGE, step_us=HUGE, gradients=st.tuples(HUGE, HUGE), remaining=HUGE,
)  # fmt: skip
def test_no_number_stops_a_policy_or_takes_anything_from_others(
    policy: str, attributes: dict[str, Any], batch: int, gathered: int, step_us: int, gradients: tuple[int, int],
    remaining: int,
) -> None:  # fmt: skip
    world = World(node("n1")).set_policy(elastic=policy)
    terms = {"gpus": 1, "tasks": 1, "minimum": 1, "maximum": 8}
    odd = world.submit_running(spec(attributes=attributes, **terms), "n1")
    plain = world.submit_running(spec(**terms), "n1")
    world.wait(4000)
    points = (Point(nodes=1, members=1, batch=batch, gathered=gathered, step_us=step_us),)
    said = Progress(points=points, grad_sqr=gradients[0], grad_var=gradients[1], remaining_s=remaining)
    world.tell("telemetry", f.ProgressReported(job=odd, progress=said))
    for _ in range(3):
        told = elasticity.propose(world.state, "default", world.at)
        if told:
            world.tell("elastic.default", *told)
            world.settle()
        world.wait(100)
    sizes = [world.job(job).sizes["worker"] for job in (odd, plain)]
    assert min(sizes) >= 1
    assert sum(sizes) <= 8


@pytest.mark.parametrize("batch", [10**30, 1 << 31, 1 << 63])
def test_a_step_time_with_a_batch_that_cannot_be_is_none(batch: int) -> None:
    told = progress(Report(step=7, step_s=0.5, batch=batch), nodes=1, members=2)
    assert (told.points, told.step) == ((), 7), "the rest of the report counts"
    assert progress(Report(step=7, step_s=0.5, batch=1 << 20), nodes=1, members=2).points


@pytest.mark.parametrize("error", [OverflowError("too large"), ZeroDivisionError(), KeyError("size"), TypeError()])
def test_a_policy_that_fails_costs_its_own_decision_and_idle_gpus_are_filled_all_the_same(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(view: View) -> list[Target]:
        raise error

    monkeypatch.setitem(POLICIES, "fails", fails)
    world = World(node("n1")).set_policy(elastic="fails")
    job = world.submit_running(spec(gpus=1, tasks=1, minimum=1, maximum=8), "n1")
    [told] = elasticity.propose(world.state, "default", world.at)
    assert isinstance(told, f.ResizeProposed)
    assert (told.job, told.size) == (job, 8)
