"""Public reports about what comes in over HTTP in odd forms: names of groups and users, repeats of a key."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from tests.services.gateway.conftest import Visitor, visitor

__all__ = ["visitor"]  # a fixture of the gateway's tests

NAMES = [
    "a//b", "/a", "a/", "..", "a/../b", ".", "a:b", "a b", " a", "a\n", "a\u202eb", "A", "a\u0301", "\u00e1", "训练",
    "🚀", "-a", "--limit", "a;b", "$(a)", "a'b", "a%2fb", "a?b", "a#b", "x" * 300, "/".join("abcdefghijklmnopqrst" * 3),
    "null", "0", "a\x00b", "\uff41",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
async def test_a_group_of_any_name_is_kept_letter_for_letter_or_refused_and_never_becomes_another(
    visitor: Visitor, name: str
) -> None:
    # open-metadata/OpenMetadata#27004: cut, folded and escaped names met each other
    groups = visitor.setting.world.state.kept.groups
    before = set(groups)
    response = await visitor.call("admin", "PUT", f"/v1/groups/{quote(name, safe='')}", json={"path": name})
    new = set(groups) - before
    if response.status >= 300:
        assert 400 <= response.status < 500, await response.text()
        assert not new
        return
    assert new == {name}
    view = await visitor.ask("admin", "GET", f"/v1/groups/{quote(name, safe='')}")
    assert view["settings"]["path"] == name
    assert "t1" in groups


@pytest.mark.parametrize(
    "name", ["zoe", "t1:una", "una:", ":una", "a/b", "", " una", "una ", "u\u202ena", "una\n", "x" * 300]
)
async def test_a_user_whose_name_reads_as_another_holder_is_refused_or_a_user_of_its_own(
    visitor: Visitor, name: str
) -> None:
    users = visitor.setting.world.state.kept.users
    before = dict(users)
    response = await visitor.call(
        "admin", "PUT", f"/v1/groups/t1/users/{quote(name, safe='')}", json={"name": name, "group": "t1"}
    )
    changed = {key: user for key, user in users.items() if before.get(key) != user}
    assert response.status < 500
    assert all((user.group, user.name) == ("t1", name) for user in changed.values())
    assert response.status < 300 or not changed
    assert changed or name != "zoe"


@pytest.mark.parametrize("between", ["cancelled", "ended", "held", "edited"])
async def test_a_key_names_one_job_whatever_became_of_it_and_however_the_file_is_written(
    visitor: Visitor, between: str
) -> None:
    # oluciano/NexJob#66, alexfrmn/murmur#141
    key, file = {"Idempotency-Key": "k"}, {"command": ["true"], "gpus": 1, "labels": {"a": "1", "b": "2"}}
    first = await visitor.ask("una", "POST", "/v1/jobs", status=202, json=file, headers=key)
    job, world = first["id"], visitor.setting.world
    calls: dict[str, tuple[str, str, Any]] = {
        "cancelled": ("DELETE", f"/v1/jobs/{job}", None),
        "held": ("POST", f"/v1/jobs/{job}/hold", {}),
        "edited": ("PATCH", f"/v1/jobs/{job}", {"labels": {"a": "3"}}),
    }
    if between == "ended":
        world.run(job, "n1")
        world.finish(job)
    else:
        method, path, body = calls[between]
        assert (await visitor.call("una", method, path, json=body)).status < 300
    turned = json.dumps(dict(reversed(file.items())), indent=3)
    head = {**key, "Content-Type": "application/json"}
    again = await visitor.ask("una", "POST", "/v1/jobs", status=202, data=turned, headers=head)
    assert again["id"] == job
    assert len(world.state.kept.jobs) == 1


@pytest.mark.parametrize("after", [[1], ["1"], [2], ["1_0"], ["2_1"], [0], [-1], [2**53], [1.5], [None], [[1]], "1", 1])
async def test_the_first_job_of_all_follows_nobody_and_no_number_to_come(visitor: Visitor, after: Any) -> None:
    answer = await visitor.call("una", "POST", "/v1/jobs", json={"command": ["true"], "after": after})
    assert 400 <= answer.status < 500, await answer.text()
    assert visitor.setting.world.state.kept.jobs == {}
