"""Groups and users are taken out by whose they are, asked first, over nobody's edit; pools are changed the same way."""

from tests.make import spec
from tests.services.gateway.conftest import Visitor

from gangline_core import facts as f
from gangline_core.groups import Group, User


def make(visitor: Visitor) -> None:
    world = visitor.setting.world
    world.tell(
        "admission",
        f.GroupSet(group=Group(path="t1/lab", version=4), by="admin"),
        f.UserSet(user=User(name="zoe", group="t1/lab"), by="admin"),
    )


async def test_a_removal_is_asked_first_checked_against_the_version_and_recorded(visitor: Visitor) -> None:
    make(visitor)
    view = await visitor.ask("admin", "DELETE", "/v1/groups/t1/lab?dry_run=true")
    assert (view["dry_run"], view["version"]) == (True, 4)
    await visitor.ask("admin", "GET", "/v1/groups/t1/lab")
    await visitor.ask("admin", "DELETE", "/v1/groups/t1/lab", status=412, headers={"If-Match": '"3"'})
    await visitor.ask("admin", "DELETE", "/v1/groups/t1/lab?why=moved", headers={"If-Match": '"4"'})
    (fact,) = visitor.setting.world.log[-1].facts
    assert fact == f.GroupRemoved(path="t1/lab", by="root", why="moved")
    await visitor.ask("admin", "GET", "/v1/groups/t1/lab", status=404)
    await visitor.ask("admin", "DELETE", "/v1/groups/t1/lab", status=404)


async def test_a_group_that_is_made_anew_has_no_version_that_the_old_one_had(visitor: Visitor) -> None:
    make(visitor)
    await visitor.ask("admin", "PUT", "/v1/groups/t1/lab/users/zoe", json={})
    await visitor.ask("admin", "DELETE", "/v1/groups/t1/lab")
    anew = await visitor.ask("admin", "PUT", "/v1/groups/t1/lab", json={"path": "t1/lab"})
    assert anew["version"] == 5
    lost = {"If-Match": '"4"'}
    await visitor.ask(
        "admin", "PUT", "/v1/groups/t1/lab", status=412, json={"path": "t1/lab", "weight": 2}, headers=lost
    )
    member = await visitor.ask("admin", "PUT", "/v1/groups/t1/lab/users/zoe", json={})
    assert member["version"] == 2


async def test_who_asks_that_nothing_be_there_yet_changes_nothing_that_is(visitor: Visitor) -> None:
    make(visitor)
    new = {"If-None-Match": "*"}
    await visitor.ask(
        "admin", "PUT", "/v1/groups/t1/lab", status=412, json={"path": "t1/lab", "weight": 2}, headers=new
    )
    await visitor.ask("admin", "PUT", "/v1/groups/t1/new", json={"path": "t1/new"}, headers=new)


async def test_a_busy_group_is_refused_and_drained_instead(visitor: Visitor) -> None:
    make(visitor)
    visitor.setting.world.submit(spec(group="t1/lab", user="zoe"))
    refused = await visitor.ask("admin", "DELETE", "/v1/groups/t1/lab", status=409)
    assert "1 unfinished jobs" in refused["detail"]
    await visitor.ask("admin", "DELETE", "/v1/groups/t1/lab?drain=true")
    assert (await visitor.ask("admin", "GET", "/v1/groups/t1/lab"))["settings"]["closing"]


async def test_heads_remove_what_is_below_them_and_members_but_not_themselves(visitor: Visitor) -> None:
    make(visitor)
    await visitor.ask("hana", "DELETE", "/v1/groups/t1", status=403)
    await visitor.ask("una", "DELETE", "/v1/groups/t1/lab", status=404)
    await visitor.ask("tom", "DELETE", "/v1/groups/t1/lab", status=404)
    await visitor.ask("hana", "DELETE", "/v1/groups/t1/lab/users/zoe")
    (fact,) = visitor.setting.world.log[-1].facts
    assert fact == f.UserRemoved(group="t1/lab", user="zoe", by="hana")
    await visitor.ask("hana", "DELETE", "/v1/groups/t1/lab")


async def test_a_pool_is_read_changed_over_nobodys_edit_and_asked_first(visitor: Visitor) -> None:
    response = await visitor.call("admin", "GET", "/v1/pools/default")
    tag, pool = response.headers["ETag"], (await response.json())["settings"]
    pool["levels"]["night"] = -500
    await visitor.ask("admin", "PUT", "/v1/pools/default?dry_run=true", json=pool, headers={"If-Match": tag})
    assert "night" not in visitor.setting.world.state.kept.pools["default"].pool.levels
    await visitor.ask("admin", "PUT", "/v1/pools/default?why=nights", json=pool, headers={"If-Match": tag})
    (fact,) = visitor.setting.world.log[-1].facts
    assert isinstance(fact, f.PoolSet)
    assert (fact.by, fact.why, fact.pool.version) == ("root", "nights", 1)
    await visitor.ask("admin", "PUT", "/v1/pools/default", json=pool, status=412, headers={"If-Match": tag})
    listed = await visitor.ask("una", "GET", "/v1/pools")
    assert "night" in listed["pools"][0]["settings"]["levels"]
    await visitor.ask("una", "PUT", "/v1/pools/default", json=pool, status=403)
    await visitor.ask("una", "GET", "/v1/pools/none", status=404)


async def test_one_element_that_waits_is_held_and_edited_alone(visitor: Visitor) -> None:
    job = await visitor.submit(array="0-9%2", gpus=1)
    one = f"/v1/jobs/{job['id']}_7"
    await visitor.ask("una", "POST", f"{one}/hold", status=202)
    view = await visitor.ask("una", "GET", one)
    assert (view["state"], view["reason"]["numbers"]) == ("held", {"by": "una"})
    assert (await visitor.ask("una", "PATCH", one, json={"time_limit": "2h"}))["time_limit_s"] == 7200
    whole = await visitor.ask("una", "GET", f"/v1/jobs/{job['id']}")
    assert whole["array"]["elements"] == {"held": "7", "waiting": "0-6,8-9"}
    await visitor.ask("una", "POST", f"/v1/jobs/{job['id']}/hold", status=202)
    refused = await visitor.ask("una", "POST", f"/v1/jobs/{job['id']}_8/release", status=409)
    assert f"release array {job['id']}" in refused["detail"]
    await visitor.ask("una", "POST", f"/v1/jobs/{job['id']}/release", status=202)
    assert (await visitor.ask("una", "GET", one))["state"] == "waiting"
