"""Groups, users, policies and pools: changed as a whole, by whose they are, and never over a stranger's edit."""

import asyncio
from typing import Any

import pytest
from tests.make import HOUR, T0, spec
from tests.services.gateway.conftest import Visitor

from gangline_core import facts as f
from gangline_core.foresight.learnt import QUANTILES, Model, Tree, packed
from gangline_core.spec import gpu_milli_wanted


async def test_a_group_is_read_changed_and_read_again(visitor: Visitor) -> None:
    response = await visitor.call("admin", "GET", "/v1/groups/t1")
    tag, settings = response.headers["ETag"], (await response.json())["settings"]
    settings["limit"] = {"gpu_milli": 4000}
    changed = await visitor.call("admin", "PUT", "/v1/groups/t1", json=settings, headers={"If-Match": tag})
    assert changed.status == 200
    assert changed.headers["ETag"] != tag
    view = await visitor.ask("una", "GET", "/v1/groups/t1")
    assert view["settings"]["limit"] == {"gpu_milli": 4000}
    assert f'"{view["version"]}"' == changed.headers["ETag"]


async def test_a_guarantee_of_more_than_there_is_is_taken_and_said_to_be_one(visitor: Visitor) -> None:
    wanted = {"path": "t1", "guaranteed": {"gpu_milli": 640_000}, "heads": ["hana"]}
    told = await visitor.ask("admin", "PUT", "/v1/groups/t1", json=wanted)
    assert "group t1 is guaranteed 640 GPUs, and all machines have" in told["doubts"][0]
    assert visitor.setting.world.state.kept.groups["t1"].guaranteed == {"gpu_milli": 640_000}
    file = {"groups": {"t3": {"guaranteed": {"gpus": 700}}}}
    applied = await visitor.ask("admin", "PUT", "/v1/settings?dry_run=true", json=file)
    assert "group t3 is guaranteed 700 GPUs" in applied["doubts"][0]
    mine = await visitor.ask("hana", "PUT", "/v1/groups/t1", json={**wanted, "user_queued_jobs_max": 7})
    assert "doubts" not in mine


@pytest.mark.parametrize(
    ("address", "body", "field"),
    [
        ("groups/t1", {"weight": 2}, "path"),
        ("groups/~", {"weight": 2}, "path"),
        ("groups/t1/users/una", {"level": 2}, "group"),
        ("pools/default", {}, "name"),
        ("windows/bios", {"nodes": ["n1"], "start_ms": T0 + HOUR, "end_ms": T0 + 2 * HOUR}, "name"),
    ],
)
async def test_what_the_address_names_need_not_stand_in_the_body_and_cannot_be_another(
    visitor: Visitor, address: str, body: dict[str, Any], field: str
) -> None:
    await visitor.ask("admin", "PUT", f"/v1/{address}?dry_run=true", json=body)
    problem = await visitor.ask(
        "admin", "PUT", f"/v1/{address}?dry_run=true", status=422, json={**body, field: "another"}
    )
    assert [error["path"] for error in problem["errors"]] == [field]
    assert "of the address" in str(problem["errors"])


async def test_an_edit_over_somebody_elses_is_refused(visitor: Visitor) -> None:
    tag = (await visitor.call("admin", "GET", "/v1/groups/t1")).headers["ETag"]
    await visitor.ask("admin", "PUT", "/v1/groups/t1", json={"path": "t1", "weight": 2}, headers={"If-Match": tag})
    problem = await visitor.ask(
        "admin", "PUT", "/v1/groups/t1", status=412, json={"path": "t1", "weight": 3}, headers={"If-Match": tag}
    )
    assert problem["code"] == "version_conflict"
    assert visitor.setting.world.state.kept.groups["t1"].weight == 2
    await visitor.ask("admin", "PUT", "/v1/groups/t1", json={"path": "t1", "weight": 3}, headers={"If-Match": "*"})


async def test_a_change_whose_answer_was_lost_is_not_taken_for_somebody_elses(visitor: Visitor) -> None:
    tag = (await visitor.call("admin", "GET", "/v1/groups/t1")).headers["ETag"]
    visitor.setting.bus.lost_answers = 1
    asking = asyncio.ensure_future(
        visitor.ask("admin", "PUT", "/v1/groups/t1", json={"path": "t1", "weight": 2}, headers={"If-Match": tag})
    )
    while not asking.done():
        await visitor.setting.clock.advance(0.1)
    await asking
    assert visitor.setting.world.state.kept.groups["t1"].weight == 2


@pytest.mark.parametrize("tag", ["3", '"x"', 'W/"3"', '"-1"', '"' + "9" * 30 + '"'])
async def test_an_etag_that_is_not_ours_is_refused(visitor: Visitor, tag: str) -> None:
    response = await visitor.call("admin", "PUT", "/v1/groups/t1", json={"path": "t1"}, headers={"If-Match": tag})
    assert response.status == 400


async def test_a_dry_run_of_a_change_judges_and_changes_nothing(visitor: Visitor) -> None:
    before = visitor.setting.world.state.kept.seq
    view = await visitor.ask("admin", "PUT", "/v1/groups/t1?dry_run=true", json={"path": "t1", "weight": 5})
    assert view["dry_run"]
    body = {"path": "t1", "limit": {"gpus": 1}}
    await visitor.ask("admin", "PUT", "/v1/groups/t1?dry_run=true", status=422, json=body)
    assert visitor.setting.world.state.kept.seq == before


async def test_a_head_divides_what_its_group_has(visitor: Visitor) -> None:
    await visitor.ask("hana", "PUT", "/v1/groups/t1/a", json={"path": "t1/a", "limit": {"gpu_milli": 2000}})
    await visitor.ask("hana", "PUT", "/v1/groups/t1/users/una", json={"limit": {"gpu_milli": 1000}})
    settings = (await visitor.ask("hana", "GET", "/v1/groups/t1"))["settings"]
    await visitor.ask("hana", "PUT", "/v1/groups/t1", json={**settings, "user_limit": {"gpu_milli": 3000}})
    assert visitor.setting.world.state.kept.groups["t1"].user_limit == {"gpu_milli": 3000}


async def test_a_head_cannot_give_its_own_group_more(visitor: Visitor) -> None:
    before = visitor.setting.world.state.kept.seq
    settings = (await visitor.ask("hana", "GET", "/v1/groups/t1"))["settings"]
    for more in ({"limit": {"gpu_milli": 99_000}}, {"weight": 9}, {"heads": ["hana", "una"]}, {"budget_gpu_hours": 5}):
        await visitor.ask("hana", "PUT", "/v1/groups/t1", status=403, json={**settings, **more})
    await visitor.ask("hana", "PUT", "/v1/groups/t1/a", status=403, json={"path": "t1/a", "level": 7})
    await visitor.ask("hana", "PUT", "/v1/groups/t1/users/una", status=403, json={"level": 7})
    await visitor.ask("hana", "PUT", "/v1/groups/t2", status=404, json={"path": "t2"})
    await visitor.ask("hana", "PUT", "/v1/groups/t2/users/tom", status=404, json={})
    await visitor.ask("una", "PUT", "/v1/groups/t1/users/una", status=403, json={"limit": {}})
    assert visitor.setting.world.state.kept.seq == before


async def test_a_caller_sees_its_own_groups_and_what_is_above(visitor: Visitor) -> None:
    async def seen(who: str) -> list[str]:
        return [group["path"] for group in (await visitor.ask(who, "GET", "/v1/groups"))["groups"]]

    assert await seen("una") == ["", "t1"]
    assert await seen("hana") == ["", "t1", "t1/a"]
    assert await seen("admin") == ["", "t1", "t1/a", "t2"]
    assert await seen("nobody") == []
    view = await visitor.ask("una", "GET", "/v1/groups/t1")
    assert view["users"] == ["una"]


async def test_usage_counts_what_runs_until_now(visitor: Visitor) -> None:
    world = visitor.setting.world
    job = world.submit_running(spec(group="t1", user="una", gpus=2), "n1")
    world.wait(3600)
    await visitor.setting.clock.advance(3600)
    lines = {
        (line["group"], line.get("user", "")): line for line in (await visitor.ask("una", "GET", "/v1/usage"))["lines"]
    }
    assert lines["t1", "una"]["gpu_hours"] == lines["t1", ""]["gpu_hours"] == 2.0
    assert lines["t1", "una"]["gpu_milli_ms"] == gpu_milli_wanted(world.job(job).spec) * HOUR
    assert lines["t1", "una"]["holds"]["gpu_milli"] == 2000
    assert ("t1", "vic") not in lines
    assert (await visitor.ask("una", "GET", "/v1/groups/t1/users/una"))["used_gpu_hours"] == 2.0
    await visitor.ask("una", "GET", "/v1/groups/t1/users/vic", status=404)


async def test_usage_names_everybody_who_has_used_a_group(visitor: Visitor) -> None:
    """An administrator needs no settings in a group to submit to it."""
    world = visitor.setting.world
    world.submit_running(spec(group="t1", user="admin", gpus=2), "n1")
    world.submit(spec(group="t1", user="later", gpus=1))
    world.wait(3600)
    await visitor.setting.clock.advance(3600)
    lines = (await visitor.ask("admin", "GET", "/v1/usage"))["lines"]
    by_user = {(line["group"], line["user"]): line for line in lines if line.get("user")}
    assert by_user["t1", "admin"]["gpu_hours"] == 2.0
    assert by_user["t1", "later"]["unfinished"] == 1
    assert not any(line.get("user") == "admin" for line in (await visitor.ask("una", "GET", "/v1/usage"))["lines"])


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"path": "t1", "wieght": 2}, "wieght"),
        ({"path": "t1", "weight": "2"}, "weight"),
        ({"path": "t1", "weight": True}, "weight"),
        ({"path": "t1", "weight": 1.5}, "weight"),
        ({"path": "t1", "weight": -1}, "weight"),
        ({"path": "t1", "weight": 2**64}, "weight"),
        ({"path": "t1", "limit": {"gpu_milli": -1}}, "limit.gpu_milli"),
        ({"path": "t1", "limit": {"gpus": 1}}, "limit.gpus"),
        ({"path": "t1", "limit": {"gpu_milli": "4"}}, "limit"),
        ({"path": "t1", "heads": "ada"}, "heads"),
        ({"path": "t1", "heads": [1]}, "heads[0]"),
        ({"path": "t1", "heads": ["a\u202eb"]}, "heads[0]"),
        ({"path": "t2"}, "path"),
        ({"path": "t1", "": 1}, '""'),
        ({"path": "t1", "limit": {f"gpu_milli:M{k}": 1 for k in range(65)}}, "limit"),
        ({"path": "t1", "limit": {"gpu_milli:" + "M" * 200: 1}}, "limit.gpu_milli:" + "M" * 30),
        ({"path": 2, "weight": 2}, "path"),
        ([], ""),
    ],
)
async def test_wrong_settings_are_refused_with_the_field(visitor: Visitor, body: Any, path: str) -> None:
    before = visitor.setting.world.state.kept.seq
    problem = await visitor.ask("admin", "PUT", "/v1/groups/t1", status=422, json=body)
    assert problem["errors"][0]["path"] == path
    assert visitor.setting.world.state.kept.seq == before


async def test_a_policy_is_checked_before_it_holds(visitor: Visitor) -> None:
    response = await visitor.call("una", "GET", "/v1/policies/default")
    policy = (await response.json())["policy"]
    tag = response.headers["ETag"]
    await visitor.ask("una", "PUT", "/v1/policies/default", status=403, json=policy)
    bad = {**policy, "formula": "level + colour"}
    problem = await visitor.ask("admin", "PUT", "/v1/policies/default", status=422, json=bad)
    assert "colour" in problem["detail"]
    await visitor.ask("admin", "PUT", "/v1/policies/default", status=422, json={**policy, "ordering": "best"})
    good = {**policy, "ordering": "fifo"}
    await visitor.ask("admin", "PUT", "/v1/policies/default", json=good, headers={"If-Match": tag})
    assert visitor.setting.world.state.kept.pools["default"].policy.ordering == "fifo"


async def test_a_policy_takes_a_learnt_model_whole_and_no_text_that_is_none(visitor: Visitor) -> None:
    tree = Tree(feature=(0, -1, -1), bound=(-1, 10, 0), right=(2, 0, 0))
    names = {"user": {f"user-{k}-{k * k * 7919 % 10007}": k for k in range(900)}}
    text = packed(
        Model(made_of="tests", names=names, heads={"run": tuple((k, (tree,)) for k in range(len(QUANTILES)))})
    )
    assert len(text) > 1_024
    policy = {"ordering": "shortest_predicted", "predictor": "learnt", "model": text}
    await visitor.ask("admin", "PUT", "/v1/policies/default", json=policy)
    assert visitor.setting.world.state.kept.pools["default"].policy.model == text
    problem = await visitor.ask(
        "admin", "PUT", "/v1/policies/default", status=422, json={**policy, "model": text[:-900]}
    )
    assert "is too large or cut short" in problem["detail"]
    await visitor.ask(
        "admin", "PUT", "/v1/policies/default", status=422, json={**policy, "formula": "1 + " * 500 + "1"}
    )


async def test_policies_come_with_what_one_may_choose_from(visitor: Visitor) -> None:
    view = await visitor.ask("una", "GET", "/v1/policies")
    assert {"fifo", "priority", "weighted"} <= set(view["orderings"])
    assert "best_fit" in view["placements"]
    assert {"adaptive", "band", "lending"} <= set(view["elastics"])
    assert view["factors"]["priority"]
    assert view["policies"][0]["levels"] == {"high": 1000, "normal": 0, "low": -1000}, (
        "the hint at an unknown level says so"
    )


async def test_a_pool_with_the_utility_band_says_how_many_nodes_it_wants(visitor: Visitor) -> None:
    world = visitor.setting.world
    world.tell("elastic.default", f.NodesWanted(pool="default", nodes=6, utility_permille=520))
    assert "nodes_wanted" not in await visitor.ask("una", "GET", "/v1/policies/default")
    world.set_policy(elastic="band")
    view = await visitor.ask("una", "GET", "/v1/policies/default")
    assert (view["nodes_wanted"], view["utility_permille"]) == (6, 520)


async def test_a_pool_is_made_by_an_administrator(visitor: Visitor) -> None:
    body = {"name": "local", "levels": {"low": -10, "normal": 0}}
    await visitor.ask("hana", "PUT", "/v1/pools/local", status=403, json=body)
    await visitor.ask("admin", "PUT", "/v1/pools/local", json=body)
    assert visitor.setting.world.state.kept.pools["local"].pool.levels == {"low": -10, "normal": 0}
    await visitor.ask("admin", "PUT", "/v1/pools/local", status=422, json={"name": "other"})
