"""Settings that are edited apart and must hold together: users within their group, cells within limits."""

import pytest
from msgspec.structs import replace
from tests.make import World, gpu_amount, group, node

from gangline_core import facts as f
from gangline_core.cluster import PinnedCell, Pool
from gangline_core.door.draft import Draft
from gangline_core.door.removal import check_group_removal
from gangline_core.groups import Group, User, UserClass
from gangline_core.settings import check_class, check_group, check_pool, check_user
from gangline_core.settings.document import Document
from gangline_core.settings.document_change import check


def user(name: str, path: str, gpus: float, **fields) -> User:
    return User(name=name, group=path, limit=gpu_amount(gpus), **fields)


# --- users -------------------------------------------------------------------------------------------------


@pytest.fixture
def tree() -> World:
    """A group of 8 GPUs, one below it without a limit of its own, and a user of 6 there."""
    groups = [group("a", limit=gpu_amount(8)), group("a/x"), group("a/x/y")]
    return World(node(), groups=groups, users=[user("ada", "a/x", 6)])


def test_users_fit_the_nearest_limit_above_them_wherever_it_stands(tree: World) -> None:
    assert check_user(tree.state, Draft(), user("bob", "a/x", 2)) is None
    problem = check_user(tree.state, Draft(), user("bob", "a/x", 3))
    assert problem is not None
    assert problem.message == "its users' limits come to 9 GPUs together; the limit of group a is 8 GPUs"
    assert check_user(tree.state, Draft(), user("bob", "a/x/y", 9)) is not None, "further down as well"


def test_a_limit_cannot_be_cut_below_the_users_of_any_group_under_it(tree: World) -> None:
    assert check_group(tree.state, Draft(), group("a", limit=gpu_amount(6))) is None
    problem = check_group(tree.state, Draft(), group("a", limit=gpu_amount(5)))
    assert problem is not None
    assert "the limits of the users of group a/x come to 6 GPUs together" in problem.message
    assert check_group(tree.state, Draft(), Group(path="", limit=gpu_amount(5))) is not None, "nor the root's"


def test_a_class_counts_for_everybody_who_is_of_it(tree: World) -> None:
    tree.tell("admission", f.ClassSet(user_class=UserClass(name="student", limit=gpu_amount(1)), by="root"))
    for name in ("bob", "cy"):
        tree.tell("admission", f.UserSet(user=User(name=name, group="a/x", of_class="student"), by="root"))
    assert check_class(tree.state, UserClass(name="student", limit=gpu_amount(1))) is None
    assert check_class(tree.state, UserClass(name="student", limit=gpu_amount(2))) is not None, "6 + 2 + 2 of 8"


def test_a_whole_document_is_judged_as_it_would_be(tree: World) -> None:
    wider = Document(groups=(group("a", limit=gpu_amount(12)),), users=(user("bob", "a/x", 6),))
    assert check(tree.state, wider, tree.at) == []
    narrow = Document(groups=(group("a", limit=gpu_amount(11)),), users=(user("bob", "a/x", 6),))
    assert {wrong.kind for wrong in check(tree.state, narrow, tree.at)} == {"group", "user"}


# --- cells -------------------------------------------------------------------------------------------------


def celled(cells: dict[str, dict[str, int]], **groups: dict[str, int]) -> World:
    """Four nodes of eight GPUs; groups with these limits, and cells that they are owed."""
    made = World(
        *(node(f"n{k}") for k in range(4)), groups=[group(p.replace("__", "/"), limit=m) for p, m in groups.items()]
    )
    made.set_policy(placement="cells")
    made.tell("admission", f.PoolSet(pool=Pool(name="default", cells=cells), by="root"))
    return made


def test_a_group_is_never_owed_more_cells_than_its_limit_lets_it_use() -> None:
    made = celled({}, a=gpu_amount(16), b={})
    assert check_pool(made.state, Pool(name="default", cells={"a": {"node": 2}, "b": {"node": 2}})) is None
    problem = check_pool(made.state, Pool(name="default", cells={"a": {"node": 3}}))
    assert problem is not None
    assert problem.field == "cells"
    assert problem.message.startswith("group a is limited to 16 GPUs, and the cells that it")
    assert problem.message.endswith("are owed have 24 GPUs")


def test_a_limit_is_never_cut_below_the_cells_of_the_group_or_of_those_below_it() -> None:
    made = celled({"a/x": {"node": 1}, "a/y": {"node": 1, "socket": 1}}, a={}, a__x={}, a__y={})
    assert check_group(made.state, Draft(), group("a", limit=gpu_amount(24))) is None
    problem = check_group(made.state, Draft(), group("a", limit=gpu_amount(23)))
    assert problem is not None
    assert problem.field == "limit.gpu_milli"
    assert check_group(made.state, Draft(), group("a/x", limit=gpu_amount(8))) is None
    assert check_group(made.state, Draft(), group("a/x", limit=gpu_amount(7))) is not None
    assert check_group(made.state, Draft(), group("a", limit={"cpu_milli": 1})) is None, "cells are GPUs"


def test_cells_of_a_model_fit_the_limit_of_that_model() -> None:
    made = celled({"a": {"node@A100": 2}}, a={})
    assert check_group(made.state, Draft(), group("a", limit=gpu_amount(16, "a100"))) is None
    assert check_group(made.state, Draft(), group("a", limit=gpu_amount(15, "A100"))) is not None
    assert check_group(made.state, Draft(), group("a", limit=gpu_amount(0, "H100"))) is None


def test_users_of_a_group_that_is_owed_cells_stay_within_what_it_may_use() -> None:
    made = celled({"a": {"node": 2}}, a=gpu_amount(16))
    assert check_user(made.state, Draft(), user("ada", "a", 16)) is None
    assert check_user(made.state, Draft(), user("ada", "a", 17)) is not None
    made.tell("admission", f.UserSet(user=user("ada", "a", 16), by="root"))
    both = [
        check_group(made.state, Draft(), group("a", limit=gpu_amount(8))),
        check_pool(made.state, replace(made.state.kept.pools["default"].pool, cells={"a": {"node": 3}})),
    ]
    assert [problem is not None for problem in both] == [True, True]


def test_a_group_that_is_owed_cells_or_a_pinned_one_is_not_removed() -> None:
    pinned = Pool(name="default", pinned={"own": PinnedCell(group="b", level="node", cell="n0")})
    made = celled({"a": {"node": 1}}, a={}, b={})
    assert check_group_removal(made.state, "a", drain=True) is not None
    assert check_group_removal(made.state, "b", drain=True) is None
    made.tell("admission", f.PoolSet(pool=pinned, by="root"))
    assert check_group_removal(made.state, "b", drain=True) is not None
    assert check_group(made.state, Draft(), group("b", limit=gpu_amount(7))) is not None
