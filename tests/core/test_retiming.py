"""The time of what runs is changed by those who may, within limits, windows and budgets; all who must know are told."""

import pytest
from msgspec.structs import replace
from tests.make import HOUR, T0, World, group, node, spec

from gangline_core import facts as f
from gangline_core.door.draft import Draft
from gangline_core.door.edits import JobEdit
from gangline_core.door.job_rights import EditProblem, Standing, check_edit
from gangline_core.door.terms import task_limit_s
from gangline_core.groups import BudgetMode
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.reserving.releases import expected_end_ms
from gangline_core.reserving.windows import Window
from gangline_core.state import decode_snapshot, encode_snapshot


def running(limit_s: int = 3600, **more) -> tuple[World, JobId]:
    made = World(node("n1"), groups=[group("lab", time_limit_s_max=86_400, **more.pop("of_group", {}))])
    made.set_policy(ordering="fifo")
    job = made.submit_running(spec(group="lab", gpus=2, time_limit_s=limit_s, grace_s=0, **more), "n1")
    return made, job


def check(made: World, job: JobId, standing: Standing = Standing.ADMIN, **terms) -> EditProblem | None:
    return check_edit(made.state, Draft(), job=job, edit=JobEdit(**terms), standing=standing, by="x", at=made.at)


def edit(made: World, job: JobId, **terms):
    return made.tell("admission", f.JobEdited(job=job, edit=JobEdit(**terms), by="x"))


@pytest.mark.parametrize(
    ("standing", "shorter", "longer"),
    [(Standing.OWNER, None, "forbidden"), (Standing.HEAD, None, None), (Standing.ADMIN, None, None)],
)
def test_owners_give_time_back_and_only_heads_and_administrators_give_more(standing, shorter, longer):
    made, job = running()
    for terms in ({"time_limit_s": 1800}, {"deadline_ms": T0 + HOUR // 2}):
        problem = check(made, job, standing, **terms)
        assert (problem.kind if problem else None) == shorter
    problem = check(made, job, standing, time_limit_s=7200)
    assert (problem.kind if problem else None) == longer
    if problem is not None:
        assert "head of its group" in problem.message
        assert problem.field == "time_limit"


def test_nobody_gives_more_than_the_group_allows():
    made, job = running()
    problem = check(made, job, Standing.HEAD, time_limit_s=100_000)
    assert problem is not None
    assert problem.field == "time_limit"


def test_a_time_that_is_over_already_is_no_way_to_cancel():
    made, job = running()
    made.wait(1800)
    for terms in ({"time_limit_s": 1200}, {"deadline_ms": made.at - 1}):
        problem = check(made, job, **terms)
        assert problem is not None
        assert problem.kind == "conflict"
        assert "cancel it" in problem.message


def test_a_stopping_job_and_pods_of_kubernetes_keep_their_time():
    made, job = running()
    made.see(replace(made.state.kept.nodes["n1"], is_watched=True))
    assert "Kubernetes" in check(made, job, time_limit_s=1800).message
    made.see(replace(made.state.kept.nodes["n1"], is_watched=False))
    made.tell("admission", f.CancelRequested(job=job, by="x"))
    assert "stopping" in check(made, job, time_limit_s=1800).message


def test_more_time_into_a_maintenance_window_is_an_administrators_word():
    made, job = running()
    window = Window(name="bios", pool="default", start_ms=T0 + 2 * HOUR, end_ms=T0 + 3 * HOUR, nodes=("n1",))
    made.tell("admission", f.WindowSet(window=window, by="admin"))
    assert "bios" in check(made, job, Standing.HEAD, time_limit_s=3 * 3600).message
    assert check(made, job, Standing.HEAD, time_limit_s=2 * 3600) is None
    assert check(made, job, Standing.ADMIN, time_limit_s=3 * 3600) is None


def test_a_safe_budget_bounds_the_time_of_what_runs():
    made, job = running(of_group={"budget_gpu_hours": 4, "budget_mode": BudgetMode.SAFE})
    assert check(made, job, time_limit_s=7200) is None
    problem = check(made, job, time_limit_s=7201)
    assert problem is not None
    assert problem.reason is not None
    assert problem.reason.code == "BudgetShort"


def test_what_is_expected_and_what_agents_are_told_follow_the_edit():
    made, job = running()
    made.wait(600)
    room_before = made.state.room("default")
    step = edit(made, job, time_limit_s=7200)
    (task,) = made.tasks(job)
    assert step.tasks == [task.id]
    assert made.job(job).retimed
    assert expected_end_ms(task, made.job(job)) == T0 + 7200_000
    assert task_limit_s(made.job(job), task.placed_ms) == 7200
    assert room_before.layout.stale or made.state.room("default").layout.stale
    made.state = decode_snapshot(encode_snapshot(made.state))
    assert made.job(job).retimed


def test_a_waiting_job_behind_it_gets_a_later_date():
    made, job = running()
    made.submit(spec(group="lab", gpus=8, time_limit_s=60))
    made.round()
    assert made.state.kept.pools["default"].reservations[0].start_ms == T0 + 3600_000
    edit(made, job, time_limit_s=7200)
    made.round()
    assert made.state.kept.pools["default"].reservations[0].start_ms == T0 + 7200_000


def test_a_new_run_is_told_at_its_start_again():
    made, job = running()
    edit(made, job, time_limit_s=7200)
    made.tell("admission", f.HoldSet(job=job, held=True, by="x"))
    made.stop_all()
    made.tell("admission", f.HoldSet(job=job, held=False, by="x"))
    made.settle()
    assert made.job(job).state == JobState.RUNNING
    assert not made.job(job).retimed


def test_a_job_that_started_meanwhile_keeps_what_only_waiting_jobs_have():
    made, job = running()
    edit(made, job, pool="other", time_limit_s=1800)
    assert (made.job(job).spec.pool, made.job(job).spec.time_limit_s) == ("default", 1800)
