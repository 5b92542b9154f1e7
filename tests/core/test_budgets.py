"""Budgets by price list: what a GPU-hour costs, who may start, who is stopped, and that the sums are right."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import HOUR, World, gpu_amount, group, node, role, spec

from gangline_core import facts as f
from gangline_core.door.admission import judge_submit
from gangline_core.door.draft import Draft
from gangline_core.groups import BudgetMode, User, UserClass
from gangline_core.job import JobState
from gangline_core.limits.accounting import budget_changes, charge, next_budget_end_ms, spent
from gangline_core.limits.budgets import GPU_HOUR
from gangline_core.limits.spending import bound_cost
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode, sentence


def priced(world: World, **milli: int) -> World:
    world.tell("admission", f.PricesSet(milli={model.lower(): price for model, price in milli.items()}, by="root"))
    return world


def refused(world: World, **fields) -> ReasonCode | None:
    judged = judge_submit(world.state, Draft(), specs=[spec(**fields)], submit_id="x", by="ada", trace="", at=world.at)
    return judged.refusals[0][1].code if judged.refusals else None


def safe(hours: int, **fields):
    return group("a", budget_gpu_hours=hours, budget_mode=BudgetMode.SAFE, **fields)


# --- prices -------------------------------------------------------------------------------------------------


def test_a_dear_model_uses_a_budget_up_sooner_and_usage_stays_what_it_is() -> None:
    world = priced(World(node(model="H100"), groups=[group("a", budget_gpu_hours=10)]), H100=2500)
    world.submit_running(spec(gpus=1, group="a"), "n1")
    assert next_budget_end_ms(world.state, world.at) == world.at + 4 * HOUR
    world.wait(4 * 3600)
    (change,) = budget_changes(world.state, world.at)
    assert (change.group, change.used_gpu_milli_ms) == ("a", 10 * GPU_HOUR)
    used = spent(world.state, world.at)
    assert (used.total("a"), used.cost_of("a")) == (4 * GPU_HOUR, 10 * GPU_HOUR)


def test_what_ended_keeps_the_price_of_its_time() -> None:
    world = priced(World(node(model="H100"), groups=[group("a", budget_gpu_hours=100)]), H100=2000)
    job = world.submit_running(spec(gpus=1, group="a"), "n1")
    world.wait(3600).finish(job)
    priced(world, H100=9000)
    world.tell("accounting", *charge(world.state, world.at))
    assert spent(world.state, world.at).cost_of("a") == 2 * GPU_HOUR
    assert world.state.kept.charged["a"] == GPU_HOUR


def test_a_model_without_a_price_costs_what_the_star_says_and_else_what_it_uses() -> None:
    world = World(node(model="T4"), groups=[group("a")])
    world.submit_running(spec(gpus=1, group="a"), "n1")
    world.wait(3600)
    assert spent(world.state, world.at).cost_of("a") == GPU_HOUR
    world.tell("admission", f.PricesSet(milli={"*": 500}, by="root"))
    assert spent(world.state, world.at).cost_of("a") == GPU_HOUR // 2


# --- modes --------------------------------------------------------------------------------------------------


def test_in_safe_mode_a_job_starts_only_when_it_can_end_inside_the_budget() -> None:
    world = World(node(), groups=[safe(10)])
    first = world.submit(gpus=4, group="a", time_limit_s=7200, grace_s=0)
    second = world.submit(gpus=2, group="a", time_limit_s=7200, grace_s=0)
    third = world.submit(gpus=1, group="a", time_limit_s=7200, grace_s=0)
    world.settle()
    assert [world.job(job).state for job in (first, second, third)] == ["running", "waiting", "running"]
    assert sentence(world.job(second).reason) == (
        "Group a starts only what can end inside its budget: 2 GPU-hours are left, the job needs 4."
    )
    world.wait(1800).finish(first).settle()
    assert world.job(second).state == JobState.RUNNING, "six hours of the first came back unused"


def test_two_jobs_of_one_round_share_what_is_left_of_a_safe_budget() -> None:
    world = World(node(), groups=[safe(10)])
    jobs = [world.submit(gpus=1, group="a", time_limit_s=6 * 3600, grace_s=0) for _ in range(2)]
    world.round()
    assert [world.job(job).state for job in jobs] == ["starting", "waiting"]


def test_the_door_refuses_what_can_never_end_inside_a_safe_budget() -> None:
    world = World(node(), groups=[safe(10)])
    assert refused(world, gpus=4, group="a", time_limit_s=3 * 3600) == ReasonCode.NEVER_FITS_BUDGET
    assert refused(world, gpus=1, group="a") == ReasonCode.NEVER_FITS_BUDGET, "nobody knows when it ends"
    assert refused(world, gpus=0, group="a") is None, "what uses no GPU costs nothing"
    assert refused(world, gpus=4, group="a", time_limit_s=2 * 3600) is None


def test_an_elastic_job_counts_with_its_largest_size_so_that_it_may_grow() -> None:
    world = World(node(), groups=[safe(10)])
    elastic = role(tasks=1, minimum=1, maximum=8, gpus=1)
    assert refused(world, roles=(elastic,), group="a", time_limit_s=2 * 3600) == ReasonCode.NEVER_FITS_BUDGET
    assert refused(world, roles=(elastic,), group="a", time_limit_s=3600) is None


def test_in_stop_mode_what_runs_goes_back_to_the_queue_and_starts_again_when_the_budget_is_raised() -> None:
    stopping = group("a", budget_gpu_hours=1, budget_mode=BudgetMode.STOP)
    world = World(node(), groups=[stopping])
    job, free = world.submit_running(spec(gpus=1, group="a"), "n1"), world.submit_running(spec(gpus=0, group="a"), "n1")
    world.wait(3600).tell("accounting", *budget_changes(world.state, world.at))
    assert (world.job(job).state, world.job(free).state) == (JobState.STOPPING, JobState.RUNNING)
    world.stop_all().settle()
    assert (world.job(job).state, world.reason(job)) == (JobState.WAITING, ReasonCode.BUDGET_EXHAUSTED)
    world.tell("admission", f.GroupSet(group=group("a", budget_gpu_hours=5, budget_mode=BudgetMode.STOP), by="root"))
    world.tell("accounting", *budget_changes(world.state, world.at))
    world.settle()
    assert world.job(job).state == JobState.RUNNING


def test_in_start_mode_what_runs_goes_on() -> None:
    world = World(node(), groups=[group("a", budget_gpu_hours=1)])
    job = world.submit_running(spec(gpus=1, group="a"), "n1")
    world.wait(3600).tell("accounting", *budget_changes(world.state, world.at))
    assert world.job(job).state == JobState.RUNNING
    assert refused(world, gpus=1, group="a") == ReasonCode.BUDGET_EXHAUSTED


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_safe_budget_is_never_overspent(data: st.DataObject) -> None:
    world = priced(World(node(model="H100"), node("n2", model="T4"), groups=[safe(20)]), H100=2000)
    for _ in range(data.draw(st.integers(1, 12))):
        hours, gpus = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
        asked = spec(gpus=gpus, group="a", time_limit_s=hours * 3600, grace_s=0)
        judged = judge_submit(
            world.state, Draft(), specs=[asked], submit_id=f"s{world.state.kept.seq}", by="ada", trace="", at=world.at
        )
        world.tell("admission", *judged.facts)
        world.settle()
        world.wait(data.draw(st.integers(0, 4)) * 1800)
        for job in world.state.live_jobs():
            if world.at - job.started_ms >= job.spec.time_limit_s * 1000 or data.draw(st.booleans()):
                # Nobody runs longer than its limit; the world of this test is a little late at most.
                world.finish(job.id)
        world.tell("accounting", *charge(world.state, world.at))
        late = 4 * 1800 * 1000 * 16 * 2000 // 1000 * 1000
        assert bound_cost(world.state, world.at).get("a", 0) <= 20 * GPU_HOUR + late


# --- settings never forget or double usage ------------------------------------------------------------------


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_editing_settings_never_forgets_or_doubles_what_runs(data: st.DataObject) -> None:
    groups = ["a", "a/x", "b"]
    world = World(node(), node("n2", gpus=4, model="T4"), groups=[group(path) for path in groups])
    for _ in range(data.draw(st.integers(1, 20))):
        act = data.draw(st.sampled_from(["submit", "edit", "user", "price", "finish", "round", "class"]))
        path = data.draw(st.sampled_from(groups))
        amount = gpu_amount(data.draw(st.integers(0, 8)))
        match act:
            case "submit":
                world.submit(gpus=data.draw(st.integers(0, 3)), group=path)
            case "edit":
                changed = group(path, limit=amount, borrow_limit=gpu_amount(2), user_limit=gpu_amount(4))
                world.tell("admission", f.GroupSet(group=changed, by="root"))
            case "user":
                world.tell("admission", f.UserSet(user=_user(path, amount), by="root"))
            case "class":
                world.tell("admission", f.ClassSet(user_class=_class(amount), by="root"))
            case "price":
                world.tell("admission", f.PricesSet(milli={"a100": data.draw(st.integers(0, 5000))}, by="root"))
            case "finish":
                for job in world.state.live_jobs()[:1]:
                    world.start(job.id).finish(job.id)
            case _:
                world.round()
        assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}
        for use in world.state.usage.values():
            assert all(amount > 0 for amount in use.values())


def _user(path: str, limit: dict[str, int]):
    return User(name="ada", group=path, limit=limit, of_class="c")


def _class(limit: dict[str, int]):
    return UserClass(name="c", limit=limit)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_a_lowered_limit_keeps_what_runs_counts_it_whole_and_starts_nothing_until_it_fits(order) -> None:
    # apache/yunikorn-core#1068
    world = World(node(), groups=[group("q", limit=gpu_amount(8))])
    sizes = (3, 3, 2)
    jobs = [world.submit_running(spec(gpus=sizes[k], group="q"), "n1") for k in order]
    world.tell("admission", f.GroupSet(group=group("q", limit=gpu_amount(4)), by="root"))
    more = world.submit(gpus=1, group="q")
    world.settle()
    assert [world.job(job).state for job in jobs] == ["running"] * 3
    assert world.state.usage["q"]["gpu_milli"] == 8000
    assert sentence(world.job(more).reason) == "Group q uses 8 of 4 GPUs; the job needs 1 more."
    world.finish(*jobs[:2]).settle()
    assert (world.job(more).state == JobState.RUNNING) == (sizes[order[2]] + 1 <= 4)
