"""All settings as one policy file over HTTP: compared first, checked whole, applied in one append or not at all."""

from typing import Any

import pytest
import yaml
from tests.client.test_policy_file import EXAMPLE
from tests.services.gateway.conftest import Visitor

from gangline_core import facts as f

FILE: dict[str, Any] = {
    "classes": {"student": {"limit": {"gpus": 1}, "queued_jobs": 2}},
    "groups": {
        "t1": {"limit": {"gpus": 8}, "heads": ["hana"], "users": {"una": {"class": "student"}}},
        "t3": {"guaranteed": {"gpus": 2}},
    },
    "prices": {"A100": 2.5},
}


async def test_a_dry_run_tells_what_would_change_and_writes_nothing(visitor: Visitor) -> None:
    before = visitor.setting.world.state.kept.seq
    view = await visitor.ask("admin", "PUT", "/v1/settings?dry_run=true", json=FILE)
    told = {(one["kind"], one["name"], one.get("field", "")): one.get("after") for one in view["changes"]}
    assert told["class", "student", "queued_jobs"] == 2
    assert told["group", "t3", "guaranteed"] == {"gpu_milli": 2000}
    assert told["prices", "", ""] == {"a100": 2500}
    assert "group t2" in view["unnamed"]
    assert visitor.setting.world.state.kept.seq == before


async def test_a_file_is_applied_in_one_append_with_who_and_why(visitor: Visitor) -> None:
    world = visitor.setting.world
    before = world.state.kept.seq
    await visitor.ask("admin", "PUT", "/v1/settings?why=quarter", json=FILE)
    assert world.state.kept.seq == before + 1
    kinds = {type(fact) for fact in world.log[-1].facts}
    assert kinds == {f.ClassSet, f.GroupSet, f.UserSet, f.PricesSet}
    assert all(fact.by == "root" and getattr(fact, "why", "quarter") == "quarter" for fact in world.log[-1].facts)
    again = await visitor.ask("admin", "PUT", "/v1/settings", json=FILE)
    assert "changes" not in again
    assert world.state.kept.seq == before + 1


async def test_a_file_that_does_not_add_up_changes_nothing_and_tells_every_place(visitor: Visitor) -> None:
    before = visitor.setting.world.state.kept.seq
    wrong = {
        "defaults": {"limit": {"gpus": 4}},
        "groups": {"t1": {"guaranteed": {"gpus": 3}}, "t3": {"guaranteed": {"gpus": 2}, "groups": {"x": {}}}},
        "pools": {"default": {"policy": {"formula": "level +"}}, "nowhere": {"policy": {}}},
    }
    problem = await visitor.ask("admin", "PUT", "/v1/settings", status=422, json=wrong)
    paths = [error["path"] for error in problem["errors"]]
    assert paths == ["defaults.guaranteed.gpus", "groups.t1.guaranteed.gpus", "groups.t3.guaranteed.gpus",
                     "pools.default.policy.formula", "pools.nowhere.policy"]  # fmt: skip
    assert visitor.setting.world.state.kept.seq == before


async def test_what_is_shown_can_be_applied_and_changes_nothing(visitor: Visitor) -> None:
    await visitor.ask("admin", "PUT", "/v1/settings", json=yaml.safe_load(EXAMPLE.read_text()))
    view = await visitor.ask("admin", "GET", "/v1/settings")
    again = await visitor.ask("admin", "PUT", "/v1/settings?dry_run=true", json=view["settings"])
    assert "changes" not in again


async def test_a_file_is_refused_when_somebody_changed_a_setting_meanwhile(visitor: Visitor) -> None:
    response = await visitor.call("admin", "GET", "/v1/settings")
    tag = response.headers["ETag"]
    await visitor.ask("admin", "PUT", "/v1/prices", json={"milli": {"h100": 2000}})
    await visitor.ask("admin", "PUT", "/v1/settings", status=412, json=FILE, headers={"If-Match": tag})


@pytest.mark.parametrize("who", ["una", "hana", "reader"])
async def test_only_administrators_apply_files(visitor: Visitor, who: str) -> None:
    await visitor.ask(who, "PUT", "/v1/settings", status=403, json=FILE)
    await visitor.ask(who, "GET", "/v1/settings", status=200 if who == "reader" else 403)


async def test_a_class_holds_where_the_users_own_settings_are_silent(visitor: Visitor) -> None:
    await visitor.ask("admin", "PUT", "/v1/settings", json=FILE)
    assert (await visitor.submit(gpus=2, status=422))["refusals"][0]["reason"]["code"] == "NeverFitsLimit"
    await visitor.submit(gpus=1)
    await visitor.submit(gpus=1)
    assert (await visitor.submit(gpus=1, status=429))["refusals"][0]["reason"]["code"] == "QueueFull"
