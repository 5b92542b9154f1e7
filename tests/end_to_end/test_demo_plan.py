"""The demo's plan is made of the public traces, fits its cluster, and is the same for the same arguments."""

from functools import cache

import pytest

from gangline_embedded import demo_plan
from gangline_embedded.demo_plan import DemoPlan, fits, make_plan, small_cluster
from gangline_lab import openb, philly
from gangline_wire.jobfile import parse_job


@cache
def plan(*, jobs: int = 800, nodes: int = 200, seed: int = 1) -> DemoPlan:
    """A plan at the demo's own speed."""
    machines = openb.read_machines()
    return make_plan(philly.read_jobs(), machines, jobs=jobs, nodes=nodes, speed=demo_plan.SPEED, seed=seed)


def test_the_usual_plan_has_hundreds_of_jobs_machines_and_several_groups() -> None:
    usual = plan()
    assert len(usual.submissions) == 800
    assert len(usual.machines) == 200
    assert {machine.model for machine in usual.machines} == openb.MODELS
    assert len(usual.groups) - 1 >= 8
    assert usual.left_out == 0
    assert usual.span_s < 60


def test_equal_arguments_give_an_equal_plan_and_another_seed_another() -> None:
    first = plan()
    plan.cache_clear()
    assert plan() == first
    assert plan(seed=2) != first


@pytest.mark.parametrize(("jobs", "nodes"), [(800, 200), (1000, 400), (50, 12), (20, 3)])
def test_every_job_file_is_legal_and_fits_the_empty_cluster(jobs: int, nodes: int) -> None:
    made = plan(jobs=jobs, nodes=nodes)
    assert len(made.submissions) + made.left_out == jobs
    for submission in made.submissions:
        spec = parse_job(submission.document)
        role = spec.roles[0]
        assert fits(role.count * role.resources.whole_gpus, made.machines, role.resources.gpu_models)
        assert spec.group == submission.group


def test_jobs_keep_the_order_and_the_gaps_of_the_trace() -> None:
    made = plan()
    trace = philly.read_jobs()
    for submission in made.submissions:
        assert submission.after_s == pytest.approx(trace[submission.number].arrival_s / demo_plan.SPEED)


def test_run_times_stay_inside_their_bounds() -> None:
    for submission in plan().submissions:
        attributes = submission.document["attributes"]
        assert isinstance(attributes, dict)
        assert demo_plan.RUN_S_LEAST <= attributes["run_time_s"] <= demo_plan.RUN_S_MOST


def test_every_limit_admits_the_largest_job_of_its_group() -> None:
    made = plan()
    limits = {group.path: group.limit.get("gpu_milli", 0) for group in made.groups}
    for submission in made.submissions:
        role = parse_job(submission.document).roles[0]
        assert role.count * role.resources.gpu_milli <= limits[submission.group]


def test_every_submission_is_sent_by_a_user_of_its_group() -> None:
    made = plan()
    members = {(user.group, user.name) for user in made.users}
    assert {(submission.group, submission.user) for submission in made.submissions} <= members


def test_a_cluster_of_any_size_has_machines_of_every_size_in_list_order() -> None:
    machines = openb.read_machines()
    for nodes in (3, 40, 200):
        cluster = small_cluster(machines, nodes)
        assert len(cluster) == nodes
        assert {1, 4, 8} <= {machine.gpus for machine in cluster} | {1}
        assert list(cluster) == [machine for machine in machines if machine in cluster]
