"""What a job used over its run is remembered with its like and becomes advice for the next one."""

from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.facts import Candidate
from gangline_core.foresight.past_use import (
    CLASSES_MAX,
    KEPT_USES,
    PastUse,
    UseRecord,
    added,
    note_use,
    recall_use,
    usual_percent,
)
from gangline_core.foresight.right_size import from_history, right_size, usable_memory_mib
from gangline_core.ordering import order


def run(world: World, *used: f.JobUsed, **asked: object) -> int:
    """A job that runs, uses this, and ends well."""
    job = world.submit_running(spec(**asked), "n1")  # type: ignore[arg-type]  # any fields of a spec
    for fact in used:
        world.tell("telemetry", f.JobUsed(**{**{k: getattr(fact, k) for k in fact.__struct_fields__}, "job": job}))
    world.finish(job)
    return job


def used(percent: int, *, window_s: int = 600, memory: int = -1, cpu: int = -1, host: int = -1) -> f.JobUsed:
    return f.JobUsed(
        job=0, gpu_percent=percent, window_s=window_s, memory_mib_max=memory, cpu_milli=cpu, host_memory_mib=host
    )


def test_percentages_are_means_over_the_whole_run_and_memory_is_the_most_ever_seen() -> None:
    record = None
    for fact in (used(80, window_s=300, memory=900), used(20, window_s=100, memory=400), used(-1, cpu=1500)):
        record = added(record, fact)
    assert record == UseRecord(
        gpu_s=400, gpu_percent_s=26_000, cpu_s=600, cpu_milli_s=900_000, gpu_memory_mib=900, memory_mib=-1
    )
    # A warning shows a long window, but only its last part is new.
    warned = f.JobUsed(job=0, gpu_percent=5, window_s=1800, is_low=True, summary_s=60)
    assert added(None, warned).gpu_s == 60


def test_jobs_like_the_ones_before_are_advised_by_what_those_used() -> None:
    world = World(node("n1", gpus=8))
    wish = {"gpus": 4, "name": "train-1", "user": "ann"}
    for _ in range(2):
        run(world, used(10, memory=3000, cpu=900, host=2000), **wish)
    history = world.state.kept.use_history
    again = spec(gpus=4, name="train-7", user="ann")
    assert len(recall_use(history, again)) == 2
    assert usual_percent(history, again) == 10
    told = from_history(history, again, gpu_memory_mib=80_000)
    assert told[0] == "The last 2 runs like it kept 4 GPUs at most 10 % busy; 1 would do the same work."
    assert told[1] == "The last 2 runs like it used at most 3000 of 80000 MiB on a GPU; a share of one would do."
    assert recall_use(history, spec(gpus=4, name="train-7", user="bob")) == (), "what others need says nothing"
    assert world.state.kept.use_records == {}


def test_one_run_or_one_that_was_hardly_watched_or_what_was_never_measured_is_no_advice() -> None:
    world = World(node("n1", gpus=8))
    run(world, used(1), gpus=4, name="a", user="ann")
    assert from_history(world.state.kept.use_history, spec(gpus=4, name="a", user="ann")) == ()
    run(world, used(1, window_s=30), gpus=4, name="b", user="bea")
    assert recall_use(world.state.kept.use_history, spec(gpus=4, name="b", user="bea")) == ()
    for _ in range(3):
        run(world, used(-1, cpu=0), gpus=4, name="c", user="cat")
    absent = spec(gpus=4, name="c", user="cat")
    assert usual_percent(world.state.kept.use_history, absent) == -1
    assert from_history(world.state.kept.use_history, absent, gpu_memory_mib=80_000) == ()


def test_one_busy_run_among_idle_ones_is_what_counts() -> None:
    world = World(node("n1", gpus=8))
    for percent in (3, 3, 90, 3):
        run(world, used(percent), gpus=4, name="a", user="ann")
    assert from_history(world.state.kept.use_history, spec(gpus=4, name="a", user="ann")) == ()


def test_what_is_remembered_is_bounded() -> None:
    world = World(node("n1"))
    history: dict[str, tuple[PastUse, ...]] = {}
    job = world.job(world.submit_running(spec(gpus=1), "n1"))
    for _ in range(3 * KEPT_USES):
        note_use(history, {job.id: UseRecord(gpu_s=100, gpu_percent_s=100)}, job)
    assert {len(uses) for uses in history.values()} == {KEPT_USES}
    history |= {f"class {k}": () for k in range(CLASSES_MAX)}
    note_use(history, {job.id: UseRecord(gpu_s=100, gpu_percent_s=100)}, job)
    assert len(history) == CLASSES_MAX


def test_advice_about_memory_needs_to_know_the_card() -> None:
    wish = spec(gpus=1)
    assert usable_memory_mib(wish, [("A100", 40_960), ("A100", 40_960)]) == 40_960
    assert usable_memory_mib(wish, [("A100", 40_960), ("H100", 81_559)]) == 0
    assert usable_memory_mib(wish, []) == 0


def test_a_running_job_whose_gpus_were_not_measured_gets_no_advice() -> None:
    assert right_size(used(-1), gpus=4, gpu_memory_mib=80_000) == ""
    assert "2 would do" in right_size(used(20), gpus=8, gpu_memory_mib=80_000)


def test_a_formula_may_let_users_go_first_who_use_what_they_ask_for() -> None:
    world = World(node("n1", gpus=8)).set_policy(formula="usual_gpu_percent")
    for user, percent in (("idle", 4), ("busy", 90)):
        run(world, used(percent), gpus=4, name="train", user=user)
    full = world.submit_running(spec(gpus=8), "n1")
    waits = {user: world.submit(spec(gpus=4, name="train", user=user)) for user in ("idle", "busy", "new")}
    world.wait(1).round()
    scores = {line.job: line.score for line in order_of(world)}
    assert {user: scores[job] for user, job in waits.items()} == {
        "idle": 4_000_000,
        "busy": 90_000_000,
        "new": 100_000_000,
    }
    world.finish(full)


def order_of(world: World) -> tuple[Candidate, ...]:
    """The pool's order now."""
    pool = world.state.kept.pools["default"]
    return tuple(order(world.state, pool, world.waiting(), world.at).candidates)
