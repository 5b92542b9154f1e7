"""The system adds an affinity to each job: the GPU models on which jobs like it were faster."""

from collections.abc import Sequence

import pytest
from tests.make import World, gpu_amount, group, node, spec

from gangline_core.foresight.affinity import OTHERS, RUNS_KEPT, tiers_of, told_speeds, told_tiers
from gangline_core.foresight.history import CLASSES_MAX
from gangline_core.spec import JobSpec

WISH = {"gpus": 1, "name": "train-1", "user": "ann"}


def world() -> World:
    """Four common machines and a rare one."""
    return World(*(node(f"v{k}", gpus=4, model="V100") for k in range(4)), node("z0", gpus=4, model="H100"))


def learn(world: World, asked: JobSpec, node_name: str, *lasted_s: Sequence[float] | float) -> None:
    for seconds in lasted_s:
        job = world.submit_running(asked, node_name)
        world.wait(float(seconds))  # type: ignore[arg-type]  # only numbers are given
        world.finish(job)


def where(world: World, asked: JobSpec) -> str:
    job = world.submit(asked)
    world.settle()
    return world.tasks(job)[0].node


def test_who_was_faster_on_a_rare_model_goes_there_and_others_leave_it() -> None:
    known = world()
    learn(known, spec(**WISH), "v0", 600, 610, 640)
    assert where(known, spec(**WISH)).startswith("v"), "one model alone says nothing"
    learn(known, spec(**WISH), "z0", 200, 205, 190)
    assert where(known, spec(**WISH)) == "z0"
    assert where(known, spec(gpus=1, name="train-2", user="bob")).startswith("v"), "of others nothing is known"
    assert where(known, spec(gpus=2, name="train-3", user="ann")).startswith("v"), "nor of another size"


def test_a_gang_goes_there_too_and_takes_what_else_is_free_when_that_is_full() -> None:
    known = world()
    wish = {"tasks": 2, "gpus": 2, "name": "gang", "user": "ann"}
    for _ in range(3):
        learn(known, spec(**wish), "v0", 600)
        learn(known, spec(**wish), "z0", 200)
    first, second = (known.submit(spec(**wish)) for _ in range(2))
    known.settle()
    assert {task.node for task in known.tasks(first)} == {"z0"}
    assert all(task.node.startswith("v") for task in known.tasks(second))


def test_who_runs_as_long_everywhere_leaves_the_rare_model_alone() -> None:
    known = world()
    learn(known, spec(**WISH), "v0", 600, 400, 640)
    learn(known, spec(**WISH), "z0", 390, 620, 405)
    assert where(known, spec(**WISH)).startswith("v")


def test_a_job_that_names_models_is_taken_at_its_word_and_a_policy_can_leave_it() -> None:
    known = world()
    learn(known, spec(**WISH), "v0", 600, 610, 640)
    learn(known, spec(**WISH), "z0", 200, 205, 190)
    assert where(known, spec(**WISH, gpu_models=("v100", "h100"))).startswith("v")
    known.set_policy(model_affinity=False)
    assert where(known, spec(**WISH)).startswith("v")


def test_a_job_that_tells_its_speeds_is_believed_before_what_others_like_it_took() -> None:
    known = world()
    learn(known, spec(**WISH), "v0", 200, 205, 190)
    learn(known, spec(**WISH), "z0", 600, 610, 640)
    assert where(known, spec(**WISH, attributes={"speed_V100": 1.0, "speed_h100": 3.5})) == "z0"
    assert where(known, spec(**WISH, attributes={"speed_h100": 3.5})) == "z0", "of others it is 1"
    assert where(known, spec(**WISH, attributes={"speed_h100": 0.5})).startswith("v")
    learn(known, spec(**{**WISH, "user": "bob"}), "v0", 600, 610, 640)
    learn(known, spec(**{**WISH, "user": "bob"}), "z0", 200, 205, 190)
    told = spec(**{**WISH, "user": "bob"}, attributes={"speed_v100": 1.0, "speed_h100": 1.05})
    assert where(known, told).startswith("v"), "it says that they are alike"


def test_where_models_cost_differently_the_user_chooses() -> None:
    known = world()
    learn(known, spec(**WISH), "v0", 600, 610, 640)
    learn(known, spec(**WISH), "z0", 200, 205, 190)
    known.state.kept.prices.update({"h100": 3_000, "v100": 1_000})
    assert where(known, spec(**WISH)).startswith("v")
    known.state.kept.prices.update({"h100": 1_000})
    assert where(known, spec(**WISH)) == "z0"


def test_who_says_that_all_models_are_alike_has_the_same_choice_as_who_says_nothing() -> None:
    for attributes in ({}, {"speed_h100": 1.05}, {"speed_v100": 1.0, "model": "resnet"}):
        known = World(node("v0", gpus=8, model="V100"), node("z0", gpus=4, model="H100"))
        known.submit_running(spec(gpus=3, name="other"), "z0")
        assert where(known, spec(**WISH, attributes=attributes)) == "z0", "it fits best there"


def test_so_he_does_where_nothing_is_known_of_the_model_that_costs_less() -> None:
    told = spec(**WISH, attributes={"speed_h100": 3.0})
    known = world()
    known.state.kept.prices.update({"h100": 3_000})
    assert where(known, told).startswith("v"), "of others it says nothing"
    known.state.kept.prices.update({"*": 3_000})
    assert where(known, told) == "z0", "all cost as much"
    known = World(*(node(f"v{k}", gpus=4, model="V100") for k in range(2)), node("z0", gpus=4, model="H100"))
    known.see(*(node(f"t{k}", gpus=4, model="T4") for k in range(3)))
    known.state.kept.prices.update({"v100": 2_000, "h100": 2_000})
    learn(known, spec(**WISH), "v0", 600, 610, 640)
    learn(known, spec(**WISH), "z0", 200, 210, 240)
    assert where(known, spec(**WISH)).startswith("t"), "two models of one price, and a common one that costs less"


def test_a_limit_on_the_faster_model_keeps_nobody_waiting() -> None:
    known = World(
        node("v0", gpus=4, model="V100"),
        node("z0", gpus=4, model="H100"),
        groups=[group("team", limit=gpu_amount(1, "H100"))],
    )
    wish = {**WISH, "group": "team"}
    learn(known, spec(**wish), "v0", 600, 610, 640)
    learn(known, spec(**wish), "z0", 200, 205, 190)
    assert [where(known, spec(**wish)) for _ in range(3)] == ["z0", "v0", "v0"]


@pytest.mark.parametrize(
    ("asked", "fails", "kept"),
    [
        pytest.param({}, 0, 1, id="whole"),
        pytest.param({"retries": 1}, 1, 1, id="begun anew"),
        pytest.param({"retries": 1, "checkpoints": True}, 1, 0, id="went on from a checkpoint"),
        pytest.param({"minimum": 1, "maximum": 2}, 0, 0, id="elastic"),
        pytest.param({}, 1, 0, id="failed"),
    ],
)
def test_only_a_run_that_did_the_whole_work_at_one_size_says_something(
    asked: dict[str, object], fails: int, kept: int
) -> None:
    known = World(node("n1", gpus=4))
    job = known.submit(spec(**WISH, **asked))  # type: ignore[arg-type]  # any fields of a spec
    known.settle()
    for _ in range(fails):
        known.finish(job, code=1)
        known.settle()
    if known.tasks(job):
        known.finish(job)
    assert len(known.state.kept.affinities.runs) == kept
    assert not known.state.kept.affinities.models


def test_tiers_are_told_apart_by_three_of_four_runs() -> None:
    assert tiers_of({"a": (10, 11, 12), "b": (30, 31, 32), "c": (12, 12, 12)}) == (("a", "c"), ("b",))
    assert tiers_of({"a": (10, 11, 12, 90), "b": (30, 31, 32, 1)}) == (("a",), ("b",)), "one outlier each"
    assert tiers_of({"a": (10, 11), "b": (30, 31, 32)}) == (("b",),), "two runs say nothing"
    assert tiers_of({"b": (5, 5, 5), "a": (5, 5, 5)}) == (("a", "b"),)


def test_told_speeds_that_hardly_differ_are_one_and_of_others_it_is_1() -> None:
    said = spec(attributes={"speed_a": 10.0, "speed_B": 9.5, "speed_c": 0.5, "speed_d": "fast", "model": "resnet"})
    assert told_speeds(said) == {"a": 10.0, "b": 9.5, "c": 0.5}
    for pairs in ({"speed_h100": 5, "speed_H100": 1}, {"speed_H100": 1, "speed_h100": 5}):
        assert told_speeds(spec(attributes=pairs)) == {"h100": 5.0}, "in whatever order"
    assert told_tiers(told_speeds(said)) == (("a", "b"), (OTHERS,), ("c",))
    assert told_tiers({"a": 1.0, "b": 0.95}) == ((OTHERS, "a", "b"),)


def test_what_is_remembered_is_bounded() -> None:
    known = World(node("n1", gpus=4))
    learn(known, spec(**WISH), "n1", *range(1, RUNS_KEPT + 5))
    (runs,) = known.state.kept.affinities.runs.values()
    assert runs["a100"] == tuple(range(5_000, (RUNS_KEPT + 5) * 1000, 1000))
    affinities = known.state.kept.affinities
    affinities.runs.update({f"class {k}": {} for k in range(CLASSES_MAX)})
    learn(known, spec(gpus=2, name="other", user="ann"), "n1", 5)
    assert len(affinities.runs) == CLASSES_MAX
