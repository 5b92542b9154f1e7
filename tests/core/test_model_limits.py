"""Limits and guarantees of one GPU model, for jobs that name it, name several, or name none."""

import pytest
from tests.make import World, gpu_amount, group, node, role, spec

from gangline_core.reasons import ReasonCode
from gangline_core.telling.explain import explain


def world(*nodes, groups=(), **policy) -> World:
    made = World(*(nodes or (node("a"), node("v", model="V100"))), groups=groups)
    return made.set_policy(ordering="fifo", starvation_s=0, **policy)


def models(made: World, job: int) -> list[str]:
    return sorted(task.gpu_model for task in made.tasks(job))


@pytest.mark.parametrize("named", [(), ("A100", "V100"), ("V100", "A100")])
def test_what_is_left_under_a_models_limit_is_used_and_the_rest_of_the_gang_goes_elsewhere(named):
    made = world(groups=[group("lab", limit=gpu_amount(5, "A100"))])
    made.submit_running(spec(gpus=4, group="lab"), ("v", (0, 1, 2, 3)))
    gang = made.submit(gpus=1, tasks=8, gpu_models=named, group="lab")
    made.round()
    assert models(made, gang).count("A100") in (4, 5)
    assert len(made.tasks(gang)) == 8


def test_of_two_limited_models_a_gang_takes_what_each_still_allows():
    limit = {**gpu_amount(3, "A100"), **gpu_amount(5, "V100")}
    made = world(groups=[group("lab", limit=limit)])
    gang = made.submit(gpus=1, tasks=8, group="lab")
    made.round()
    assert models(made, gang) == ["A100"] * 3 + ["V100"] * 5


def test_large_tasks_leave_a_model_whose_limit_holds_only_the_small_ones():
    made = world(node("a"), node("v", model="V100", gpus=5), groups=[group("lab", limit=gpu_amount(3, "A100"))])
    roles = [role("small", tasks=4, gpus=1), role("large", tasks=1, gpus=4)]
    gang = made.submit(spec(roles=roles, group="lab"))
    made.round()
    assert sorted(task.gpu_model for task in made.tasks(gang)) == ["A100"] * 3 + ["V100"] * 2


def test_a_gang_that_must_be_of_one_model_takes_none_of_a_limit_it_would_break():
    made = world(groups=[group("lab", limit=gpu_amount(5, "A100"))])
    gang = made.submit(gpus=1, tasks=8, same_model=True, group="lab")
    made.round()
    assert models(made, gang) == ["V100"] * 8


def test_where_no_model_has_enough_left_the_limit_is_named():
    made = world(groups=[group("lab", limit={**gpu_amount(3, "A100"), **gpu_amount(4, "V100")})])
    gang = made.submit(gpus=1, tasks=8, group="lab")
    made.round()
    assert not made.tasks(gang)
    assert made.reason(gang) == ReasonCode.GROUP_LIMIT


def borrowed(**owner) -> tuple[World, list[int]]:
    """All of both models is lent to others; the owner is guaranteed four A100."""
    groups = [group("owner", guaranteed=gpu_amount(4, "A100"), **owner), group("others")]
    made = world(groups=groups)
    lent = [
        made.submit_running(spec(gpus=2, group="others"), (name, (2 * k, 2 * k + 1)))
        for name in ("a", "v")
        for k in range(4)
    ]
    return made, lent


@pytest.mark.parametrize("named", [(), ("V100", "A100"), ("A100",)])
def test_a_guarantee_of_one_model_is_given_back_to_jobs_that_could_use_others_too(named):
    made, lent = borrowed()
    jobs = [made.submit(gpus=2, gpu_models=named, group="owner") for _ in range(3)]
    decided = made.round()
    assert sorted(one.job in lent[:4] for one in decided.evictions) == [True, True]
    made.settle()
    assert [models(made, job) for job in jobs] == [["A100"], ["A100"], []]


def test_what_a_job_of_any_model_was_given_counts_for_the_model_it_is_on():
    """Two of the four guaranteed cards are in use by a job that named none: two are left to take back."""
    made, _ = borrowed()
    first = made.submit(gpus=2, group="owner")
    made.round()
    made.settle()
    assert models(made, first) == ["A100"]
    larger = made.submit(gpus=4, gpu_models=["A100"], group="owner")
    made.round()
    assert not made.state.kept.claims
    assert made.reason(larger) == ReasonCode.INSUFFICIENT_GPUS


def test_a_limit_above_does_not_keep_out_who_gets_a_model_back_below_it():
    groups = [
        group("org", limit=gpu_amount(8)),
        group("org/owner", guaranteed=gpu_amount(4, "A100")),
        group("org/others"),
    ]
    made = world(groups=groups)
    for k in range(4):
        made.submit_running(spec(gpus=2, group="org/others"), ("a", (2 * k, 2 * k + 1)))
    job = made.submit(gpus=2, group="org/owner")
    made.round()
    made.settle()
    assert models(made, job) == ["A100"]


@pytest.mark.parametrize("named", [(), ("A100",)])
def test_whom_a_models_limit_keeps_out_reads_that_whether_it_names_the_model_or_not(named):
    made = world(node("a"), groups=[group("lab", limit=gpu_amount(4, "A100"))])
    jobs = [made.submit(gpus=1, gpu_models=named, group="lab") for _ in range(6)]
    made.round()
    for job in jobs[4:]:
        told = explain(made.state, job, made.at).reason
        assert told is not None
        assert told.code == ReasonCode.GROUP_LIMIT
