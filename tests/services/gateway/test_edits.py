"""Who changed which setting is told to those who lead or see everything, in pages, and never with a secret."""

from typing import Any

import pytest
from tests.services.gateway.conftest import Visitor

HISTORY = "/v1/settings/history"


async def change(visitor: Visitor, path: str, /, *, who: str = "admin", why: str = "", **settings: Any) -> None:
    await visitor.ask(who, "PUT", f"{path}?why={why}", json=settings)


async def edits(visitor: Visitor, who: str, query: str = "", *, status: int = 200) -> list[dict[str, Any]]:
    answer = await visitor.ask(who, "GET", f"{HISTORY}{query}", status=status)
    return list(answer.get("edits", []))


async def prepared(visitor: Visitor) -> None:
    """Somebody changed a setting of every kind."""
    await change(visitor, "/v1/groups/t1", why="grant", path="t1", limit={"gpu_milli": 8000}, heads=["hana"])
    await change(visitor, "/v1/groups/t1", why="less", path="t1", limit={"gpu_milli": 4000}, heads=["hana"])
    await change(visitor, "/v1/groups/t1/users/una", who="hana", why="hers", limit={"gpu_milli": 2000})
    await change(visitor, "/v1/groups/t2", path="t2", weight=3)
    await change(visitor, "/v1/policies/default", why="by share", ordering="fifo")
    await change(visitor, "/v1/prices", milli={"h100": 2500})
    await change(visitor, "/v1/pools/default", name="default", levels={"normal": 0, "night": -1})


async def test_an_edit_is_told_with_who_when_why_and_from_what_to_what(visitor: Visitor) -> None:
    await prepared(visitor)
    edit = next(one for one in await edits(visitor, "admin", "?kind=group&group=t1") if one["name"] == "t1")
    assert (edit["by"], edit["why"], edit["act"]) == ("root", "less", "changed")
    assert edit["changes"] == [{"field": "limit.gpus", "before": 8, "after": 4}]
    assert edit["version"] == (await visitor.ask("admin", "GET", "/v1/groups/t1"))["version"]
    assert edit["at_ms"] == visitor.setting.world.at
    (prices,) = await edits(visitor, "admin", "?kind=prices")
    assert prices["changes"] == [{"field": "h100", "after": 2.5}]


async def test_a_dry_run_and_a_refused_edit_are_no_history(visitor: Visitor) -> None:
    before = await edits(visitor, "admin")
    await visitor.ask("admin", "PUT", "/v1/groups/t1?dry_run=true", json={"path": "t1", "weight": 5})
    await visitor.ask("admin", "PUT", "/v1/groups/t1", status=422, json={"path": "t1", "weight": -1})
    assert await edits(visitor, "admin") == before


@pytest.mark.parametrize(
    ("who", "kinds", "groups"),
    [
        ("admin", {"group", "user", "policy", "pool", "prices", "token"}, {"t1", "t2", "t1/a"}),
        ("reader", {"group", "user", "policy", "pool", "prices", "token"}, {"t1", "t2", "t1/a"}),
        ("hana", {"group", "user", "token"}, {"t1", "t1/a"}),
        ("head2", {"group", "user", "token"}, {"t2"}),
        ("una", {"user", "token"}, {"t1"}),
        ("nobody", {"token"}, set()),
    ],
)
async def test_heads_are_told_of_their_groups_and_only_all_seeing_callers_of_everything(
    visitor: Visitor, who: str, kinds: set[str], groups: set[str]
) -> None:
    await prepared(visitor)
    told = await edits(visitor, who)
    assert {edit["kind"] for edit in told} == kinds
    assert {group for edit in told if edit["kind"] != "token" for group in edit.get("groups", ())} == groups
    if who == "una":
        assert {edit["name"] for edit in told if edit["kind"] == "user"} == {"t1:una"}


@pytest.mark.parametrize(
    ("who", "query", "status"),
    [
        ("hana", "?group=t2", 404),
        ("hana", "?group=t4711", 404),
        ("tom", "?group=t1", 404),
        ("hana", "?pool=default", 403),
        ("admin", "?pool=none", 404),
        ("admin", "?kind=secrets", 400),
        ("admin", "?group=a//b", 400),
        ("admin", "?cursor=abc", 400),
        ("", "", 401),
    ],
)
async def test_what_one_may_not_know_is_answered_like_what_is_not(
    visitor: Visitor, who: str, query: str, status: int
) -> None:
    await prepared(visitor)
    await edits(visitor, who, query, status=status)


async def test_a_foreign_group_answers_like_one_that_is_not_there(visitor: Visitor) -> None:
    answers = [await visitor.ask("hana", "GET", f"{HISTORY}?group={name}", status=404) for name in ("t2", "t9")]
    assert answers[0]["detail"] == answers[1]["detail"]


async def test_a_pool_and_a_group_choose_what_is_theirs(visitor: Visitor) -> None:
    await prepared(visitor)
    of_pool = await edits(visitor, "admin", "?pool=default")
    assert [edit["kind"] for edit in of_pool][:2] == ["pool", "policy"]
    assert {edit["kind"] for edit in of_pool} == {"pool", "policy"}
    of_group = await edits(visitor, "admin", "?group=t1&kind=group,user")
    assert {edit["name"] for edit in of_group} == {"t1", "t1/a", "t1:una", "t1:vic"}
    everything = await edits(visitor, "admin", "?group=~&kind=group")
    assert {edit["name"] for edit in everything} >= {"t1", "t1/a", "t2"}


async def test_pages_follow_each_other_without_a_gap_while_edits_go_on(visitor: Visitor) -> None:
    await prepared(visitor)
    whole = [edit["number"] for edit in await edits(visitor, "admin")]
    assert whole == sorted(whole, reverse=True)
    seen, cursor = [], ""
    while True:
        page = await visitor.ask("admin", "GET", f"{HISTORY}?limit=3&cursor={cursor}")
        seen += [edit["number"] for edit in page["edits"]]
        cursor = page.get("next", "")
        if not cursor:
            break
        await change(visitor, "/v1/groups/t2", path="t2", weight=len(seen) + 10)
    assert seen == whole
    answer = await visitor.ask("admin", "GET", f"{HISTORY}?limit=3")
    await visitor.ask("reader", "GET", f"{HISTORY}?cursor={answer['next']}", status=400)


async def test_a_removed_group_is_still_told_to_those_who_led_above_it(visitor: Visitor) -> None:
    await visitor.ask("admin", "DELETE", "/v1/groups/t1/a?why=over")
    (last, *_) = await edits(visitor, "hana", "?group=t1/a&kind=group")
    assert (last["act"], last["why"]) == ("removed", "over")


async def test_tokens_are_told_by_name_and_never_by_hash_or_text(visitor: Visitor) -> None:
    issued = await visitor.ask(
        "hana", "POST", "/v1/tokens", status=201, json={"name": "ci", "role": "user", "user": "una", "groups": ["t1"]}
    )
    await visitor.ask("hana", "DELETE", f"/v1/tokens/{issued['view']['digest']}")
    told = await edits(visitor, "hana", "?kind=token")
    assert [(edit["name"], edit["act"], edit["by"]) for edit in told[:2]] == [
        ("ci", "removed", "hana"),
        ("ci", "made", "hana"),
    ]
    assert issued["token"] not in str(told)
    assert issued["view"]["digest"] not in str(told)
