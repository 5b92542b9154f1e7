"""Settings are checked as a whole before they hold."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, gpu_amount, group, node, spec, state_with

from gangline_core import facts as f
from gangline_core.cluster import Policy, Pool
from gangline_core.door.draft import Draft
from gangline_core.groups import User
from gangline_core.settings import (
    HEADS_OWN,
    changed_fields,
    check_group,
    check_policy,
    check_pool,
    check_user,
)


def wrong(state, wanted) -> tuple[str, str]:
    """Kind and field of what is wrong."""
    check = check_group if hasattr(wanted, "path") else check_user
    problem = check(state, Draft(), wanted)
    assert problem is not None
    assert problem.message
    return problem.kind, problem.field


def test_a_plain_group_and_user_are_fine():
    state = state_with(groups=[group("a")])
    assert check_group(state, Draft(), group("a/b", guaranteed={}, limit=gpu_amount(3), heads=("hedy",))) is None
    assert check_group(state, Draft(), group("")) is None
    assert check_user(state, Draft(), User(name="ada", group="a", limit=gpu_amount(3))) is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (group("a/"), ("invalid", "path")),
        (group("/a"), ("invalid", "path")),
        (group("a:b"), ("invalid", "path")),
        (group("../x"), ("invalid", "path")),
        (group("a\n"), ("invalid", "path")),
        (group("/".join("a" * 17)), ("invalid", "path")),
        (group("x/y"), ("not_found", "path")),
        (group("a", limit={"gpus": 4}), ("invalid", "limit.gpus")),
        (group("a", limit={"gpu_milli:": 4}), ("invalid", "limit.gpu_milli:")),
        (group("a", limit={"gpu_milli": -1}), ("invalid", "limit.gpu_milli")),
        (group("a", limit={"gpu_milli": 10**16}), ("invalid", "limit.gpu_milli")),
        (group("a", limit={"gpu_milli:A100": 1, "gpu_milli:a100": 2}), ("invalid", "limit")),
        (group("a", guaranteed={"jobs": 1}), ("invalid", "guaranteed")),
        (group("a", job_limit={"jobs": 1}), ("invalid", "job_limit")),
        (group("a", limit=gpu_amount(4), guaranteed=gpu_amount(5)), ("invalid", "guaranteed.gpu_milli")),
        (
            group("a", limit=gpu_amount(4), guaranteed={"gpu_milli:A": 3000, "gpu_milli:B": 2000}),
            ("invalid", "guaranteed.gpu_milli"),
        ),
        (group("a", limit=gpu_amount(4), user_limit=gpu_amount(5)), ("invalid", "user_limit.gpu_milli")),
        (group("a", weight=-1), ("invalid", "weight")),
        (group("a", level=2_000_000), ("invalid", "level")),
        (group("a", heads=("x", "x")), ("invalid", "heads")),
        (group("a", heads=("a b",)), ("invalid", "heads")),
        (group("a", queued_jobs_max=-1), ("invalid", "queued_jobs_max")),
        (group("a", time_limit_s_max=-1), ("invalid", "time_limit_s_max")),
        (group("a", budget_gpu_hours=-1), ("invalid", "budget_gpu_hours")),
        (User(name="ada", group="nobody"), ("not_found", "group")),
        (User(name="a:b", group="a"), ("invalid", "name")),
        (User(name="ada", group="a", limit={"x": 1}), ("invalid", "limit.x")),
        (User(name="ada", group="a", level=-2_000_000), ("invalid", "level")),
    ],
)
def test_what_is_wrong_is_named_with_its_field(wanted, expected):
    assert wrong(state_with(groups=[group("a")]), wanted) == expected


def test_users_together_never_have_a_larger_limit_than_their_group():
    state = state_with(
        groups=[group("a", limit=gpu_amount(8))],
        users=[User(name="ada", group="a", limit=gpu_amount(4)), User(name="bob", group="a", limit=gpu_amount(3))],
    )
    assert check_user(state, Draft(), User(name="eve", group="a", limit=gpu_amount(1))) is None
    problem = check_user(state, Draft(), User(name="eve", group="a", limit=gpu_amount(2)))
    assert problem.message == "its users' limits come to 9 GPUs together; the limit of group a is 8 GPUs"
    assert check_user(state, Draft(), User(name="ada", group="a", limit=gpu_amount(5))) is None
    assert wrong(state, User(name="ada", group="a", limit=gpu_amount(6))) == ("invalid", "limit")
    assert wrong(state, group("a", limit=gpu_amount(6))) == ("invalid", "limit")
    assert check_group(state, Draft(), group("a", limit=gpu_amount(7))) is None


def test_children_are_never_guaranteed_more_than_their_parent():
    state = state_with(
        groups=[group("a", guaranteed=gpu_amount(8)), group("a/b", guaranteed=gpu_amount(5)), group("c")]
    )
    assert check_group(state, Draft(), group("a/d", guaranteed=gpu_amount(3))) is None
    problem = check_group(state, Draft(), group("a/d", guaranteed=gpu_amount(4)))
    assert problem.field == "guaranteed.gpu_milli"
    assert "the guarantee of group a, which they share, is 8 GPUs" in problem.message
    assert wrong(state, group("a", guaranteed=gpu_amount(4))) == ("invalid", "guaranteed.gpu_milli")
    assert wrong(state, group("c/d", guaranteed=gpu_amount(1))) == ("invalid", "guaranteed.gpu_milli")
    assert check_group(state, Draft(), group("a/b", guaranteed=gpu_amount(8))) is None


def test_the_root_without_a_guarantee_stands_for_the_whole_cluster():
    state = state_with(groups=[group("a", guaranteed=gpu_amount(8))])
    assert check_group(state, Draft(), group("b", guaranteed=gpu_amount(800))) is None
    bounded = state_with(groups=[group("", guaranteed=gpu_amount(10)), group("a", guaranteed=gpu_amount(8))])
    assert check_group(bounded, Draft(), group("b", guaranteed=gpu_amount(2))) is None
    assert wrong(bounded, group("b", guaranteed=gpu_amount(3))) == ("invalid", "guaranteed.gpu_milli")


def test_a_guarantee_stays_below_every_limit_above_it():
    state = state_with(groups=[group("a", limit={"gpu_milli:A100": 4000}), group("a/b")])
    assert wrong(state, group("a/b", guaranteed={"gpu_milli:a100": 5000}))[1] == "guaranteed.gpu_milli:a100"


def test_a_limit_may_be_cut_below_present_use():
    world = World(node(), groups=[group("q", limit=gpu_amount(8))])
    world.submit_running(spec(gpus=8, group="q"), "n1")
    assert check_group(world.state, Draft(), group("q", limit=gpu_amount(4))) is None


AMOUNTS = st.integers(0, 6).map(gpu_amount) | st.just({})


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "a/b", "a/c", "a/b/d"]), AMOUNTS, AMOUNTS), max_size=10))
def test_whatever_is_set_the_tree_adds_up(edits):
    world = World()
    for path, guaranteed, limit in edits:
        wanted = group(path, guaranteed=guaranteed, limit=limit)
        if check_group(world.state, Draft(), wanted) is None:
            world.tell("admission", f.GroupSet(group=wanted, by="admin"))
    groups = world.state.kept.groups
    for path, parent in groups.items():
        children = [one for name, one in groups.items() if name and name.rpartition("/")[0] == path]
        promised = sum(child.guaranteed.get("gpu_milli", 0) for child in children)
        assert promised <= parent.limit.get("gpu_milli", promised)
        if path:
            assert promised <= parent.guaranteed.get("gpu_milli", 0)


# --- pools and policies ----------------------------------------------------------------------------------------


def test_the_default_pool_and_policy_are_fine():
    state = state_with()
    assert check_pool(state, Pool(name="default")) is None
    assert check_pool(state, Pool(name="night", levels={"normal": 0}, topology={})) is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "a.b"}, "name"),
        ({"name": ""}, "name"),
        ({"levels": {}}, "levels"),
        ({"levels": {"a b": 1}}, "levels"),
        ({"levels": {"normal": 10**7}}, "levels.normal"),
        ({"topology": {"node": "x"}}, "topology"),
        ({"topology": {"rack": ""}}, "topology.rack"),
    ],
)
def test_a_pool_is_refused_with_the_field(fields, field):
    problem = check_pool(state_with(), Pool(**{"name": "p", **fields}))
    assert (problem.kind, problem.field) == ("invalid", field)


def test_a_level_in_which_jobs_wait_stays():
    world = World()
    world.submit(level="high")
    problem = check_pool(world.state, Pool(name="default", levels={"normal": 0}))
    assert problem.kind == "conflict"
    assert check_pool(world.state, Pool(name="default", levels={"high": 0})) is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"ordering": "lottery"}, "ordering"),
        ({"placement": "anywhere"}, "placement"),
        ({"formula": "1 / estimate_hours"}, "formula"),
        ({"formula": "level +"}, "formula"),
        ({"starvation_s": -1}, "starvation_s"),
        ({"candidates_max": 0}, "candidates_max"),
        ({"candidates_per_shape": 0}, "candidates_per_shape"),
    ],
)
def test_a_policy_is_refused_with_the_field(fields, field):
    problem = check_policy(state_with(), replace(Policy(), **fields))
    assert (problem.kind, problem.field) == ("invalid", field)
    assert check_policy(state_with(), Policy()) is None


# --- rights ----------------------------------------------------------------------------------------------------


def test_what_heads_change_of_their_own_group_only_divides_what_it_has():
    assert all(name.startswith("user_") or name == "job_limit" for name in HEADS_OWN)
    known = group("a", limit=gpu_amount(8), version=3)
    assert changed_fields(known, replace(known, version=4)) == set()
    assert changed_fields(known, replace(known, limit=gpu_amount(9), heads=("eve",))) == {"limit", "heads"}


def test_a_group_names_no_queue_level_that_no_pool_has():
    """With nothing but such levels no job of the group could ever enter."""
    world = World(node())
    wrong = check_group(world.state, Draft(), group("a", levels=("normal", "nosuch")))
    assert wrong is not None
    assert (wrong.field, wrong.message) == ("levels", "no pool has a level nosuch")
    assert check_group(world.state, Draft(), group("a", levels=("normal", "high"))) is None
