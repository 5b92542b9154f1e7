"""Submitting: answered when the log holds it, refused with the field's path, never done twice, never half."""

import asyncio
import json
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import pytest
from msgspec.structs import replace
from tests.services.gateway.conftest import Visitor

from gangline_core.facts import GroupSet, JobAdmitted, UserSet
from gangline_core.groups import User
from gangline_gateway import call as gateway_call
from gangline_kit.errors import OutcomeUnknownError, TemporaryError
from gangline_wire import requests as r

JSON = "application/json"


def jobs_of(visitor: Visitor) -> dict[int, Any]:
    return dict(visitor.setting.world.state.kept.jobs)


async def test_a_submitted_job_is_in_the_log_when_it_is_answered(visitor: Visitor) -> None:
    response = await visitor.call("una", "POST", "/v1/jobs", json={"command": ["true"], "gpus": 2, "group": "t1"})
    assert response.status == 202
    view = await response.json()
    assert response.headers["Location"] == f"/v1/jobs/{view['id']}"
    assert (view["name"], view["state"], view["user"], view["gpu_milli"]) == ("job-1", "waiting", "una", 2000)
    assert isinstance(visitor.setting.world.log[-1].facts[0], JobAdmitted)


async def test_the_group_is_the_tokens_only_one_when_the_file_does_not_say(visitor: Visitor) -> None:
    assert (await visitor.submit("una"))["group"] == "t1"
    problem = await visitor.submit("nobody", status=422)
    assert problem["errors"][0]["path"] == "group"
    problem = await visitor.submit("admin", status=422)
    assert problem["errors"][0]["path"] == "group"


async def test_a_batch_is_admitted_whole(visitor: Visitor) -> None:
    documents = [{"name": f"j{k}", "command": ["true"]} for k in range(120)]
    answer = await visitor.ask("una", "POST", "/v1/jobs:batch", status=202, json={"jobs": documents})
    assert [job["name"] for job in answer["jobs"]] == [f"j{k}" for k in range(120)]
    assert len(visitor.setting.bus.requests) == 1


async def test_a_refusal_names_the_field_where_it_was_written(visitor: Visitor) -> None:
    short = {"command": ["true"], "gpus": 64}
    assert (await visitor.submit("una", gpus=64, status=422))["errors"][0]["path"] == "gpus"
    long = {"roles": [{"name": "a", "command": ["true"], "gpus": 1}, {"name": "b", "command": ["true"], "gpus": 64}]}
    problem = await visitor.ask("una", "POST", "/v1/jobs", status=422, json=long)
    assert problem["errors"][0]["path"] == "roles[1].gpus"
    batch = {"jobs": [{"command": ["true"]}, short, {"command": ["true"], "pool": "nowhere"}, long]}
    problem = await visitor.ask("una", "POST", "/v1/jobs:batch", status=422, json=batch)
    paths = [error["path"] for error in problem["errors"]]
    assert paths == ["jobs[1].gpus", "jobs[2].pool", "jobs[3].roles[1].gpus"]


async def test_one_wrong_job_refuses_the_batch_and_says_where(visitor: Visitor) -> None:
    documents = [{"command": ["true"]}, {"command": ["true"], "gpus": -1}, {"command": ["true"], "memory": 3}]
    problem = await visitor.ask("una", "POST", "/v1/jobs:batch", status=422, json={"jobs": documents})
    assert [error["path"] for error in problem["errors"]] == ["jobs[1].gpus", "jobs[2].memory"]
    assert not jobs_of(visitor)


async def test_a_job_that_can_never_fit_is_refused_with_the_number(visitor: Visitor) -> None:
    problem = await visitor.submit("una", gpus=9, status=422)
    assert problem["code"] == "refused"
    assert problem["refusals"][0]["reason"]["code"] == "NeverFitsNode"
    assert "9" in problem["detail"]
    assert "8" in problem["detail"]
    assert not jobs_of(visitor)


async def test_two_unfinished_jobs_of_one_name_conflict(visitor: Visitor) -> None:
    await visitor.submit("una", name="train")
    problem = await visitor.submit("una", name="train", status=409)
    assert problem["refusals"][0]["reason"]["code"] == "NameTaken"


async def test_a_dry_run_changes_nothing(visitor: Visitor) -> None:
    before = visitor.setting.world.state.kept.seq
    view = await visitor.ask("una", "POST", "/v1/jobs?dry_run=true", json={"command": ["true"]})
    assert (view["id"], view["state"]) == (0, "waiting")
    batch = await visitor.ask("una", "POST", "/v1/jobs:batch?dry_run=1", json={"jobs": [{"command": ["true"]}]})
    assert [job["id"] for job in batch["jobs"]] == [0]
    await visitor.ask("una", "POST", "/v1/jobs?dry_run=true", status=422, json={"command": ["true"], "gpus": 99})
    assert visitor.setting.world.state.kept.seq == before


async def test_a_dry_run_tells_room_place_start_nodes_cost_and_limits(visitor: Visitor) -> None:
    asked = {"command": ["true"], "gpus": 2, "time_limit": "1h"}
    told = (await visitor.ask("una", "POST", "/v1/jobs?dry_run=true", json=asked))["foretold"]
    assert (told["has_room"], told["position"], told["nodes_suitable"]) == (True, 1, 2)
    assert (told["start_from_ms"], told["confidence"]) == (told["start_to_ms"], "high")
    assert told["nodes"] == ["n1"]
    assert told["cost_milli"] >= 2000
    batch = await visitor.ask("una", "POST", "/v1/jobs:batch?dry_run=1", json={"jobs": [asked]})
    assert batch["jobs"][0]["foretold"]["has_room"]


async def test_a_dry_run_shows_the_job_as_the_door_completes_it_and_of_an_array_its_first_element(
    visitor: Visitor,
) -> None:
    asked = {"command": ["true"], "gpus": 2, "array": "0-9", "group": "t1"}
    known = visitor.setting.world.state.kept.groups["t1"]
    visitor.setting.world.tell("admission", GroupSet(group=replace(known, time_limit_s_max=7_200), by="root"))
    view = await visitor.ask("una", "POST", "/v1/jobs?dry_run=true", json=asked)
    assert view["time_limit_s"] == 7_200
    assert view["foretold"]["has_room"]
    assert view["foretold"]["start_note"].startswith("Of the first of 10 elements. ")


async def test_secrets_travel_apart_from_the_job(visitor: Visitor) -> None:
    view = await visitor.submit(
        "una", command=["run", "--header", "Authorization: Bearer abc"], env={"API_TOKEN": "s3cr3t-123", "MODE": "LIVE"}
    )
    request = visitor.setting.bus.requests[-1]
    assert isinstance(request, r.SubmitJobs)
    assert set(request.secrets[0].values()) == {"s3cr3t-123", "abc"}
    shown = json.dumps(await visitor.ask("una", "GET", f"/v1/jobs/{view['id']}"))
    logged = repr([message.raw for message in visitor.setting.world.log])
    for text in (shown, logged, json.dumps(view)):
        assert "s3cr3t-123" not in text
        assert "Bearer abc" not in text
    assert "LIVE" in shown


# --- repeats --------------------------------------------------------------------------------------------------


async def test_a_repeat_with_the_same_key_gives_the_first_answer(visitor: Visitor) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = await visitor.call("una", "POST", "/v1/jobs", json={"command": ["true"]}, headers=key)
    again = await visitor.call("una", "POST", "/v1/jobs", json={"command": ["true"]}, headers=key)
    assert (await first.json())["id"] == (await again.json())["id"]
    assert (first.status, again.status) == (202, 202)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert len(jobs_of(visitor)) == 1


async def test_a_repeat_gives_the_first_answer_whatever_was_changed_of_the_job_since(visitor: Visitor) -> None:
    for number, more in enumerate(({}, {"array": "0-3%2"})):
        key, file = {"Idempotency-Key": f"k-{number}"}, {"command": ["true"], **more}
        first = await visitor.ask("una", "POST", "/v1/jobs", status=202, json=file, headers=key)
        await visitor.ask("una", "PATCH", f"/v1/jobs/{first['id']}", json={"time_limit": 90, "labels": {"a": "b"}})
        again = await visitor.ask("una", "POST", "/v1/jobs", status=202, json=file, headers=key)
        assert again["id"] == first["id"]
        other = {**file, "command": ["false"]}
        problem = await visitor.ask("una", "POST", "/v1/jobs", status=422, json=other, headers=key)
        assert problem["code"] == "key_reused"


async def test_a_key_used_for_another_job_is_refused(visitor: Visitor) -> None:
    key = {"Idempotency-Key": "k-1"}
    await visitor.ask("una", "POST", "/v1/jobs", status=202, json={"command": ["true"]}, headers=key)
    problem = await visitor.ask("una", "POST", "/v1/jobs", status=422, json={"command": ["false"]}, headers=key)
    assert problem["code"] == "key_reused"
    assert len(jobs_of(visitor)) == 1


async def test_what_admission_fills_in_does_not_make_a_repeat_another_job(visitor: Visitor) -> None:
    await visitor.ask("admin", "PUT", "/v1/groups/t1", json={"path": "t1", "time_limit_s_max": 3600})
    key = {"Idempotency-Key": "k-1"}
    for _ in range(2):
        view = await visitor.ask("una", "POST", "/v1/jobs", status=202, json={"command": ["true"]}, headers=key)
        assert view["spec"]["time_limit_s"] == 3600


async def test_two_users_may_use_the_same_key(visitor: Visitor) -> None:
    key = {"Idempotency-Key": "k-1"}
    for who in ("una", "tom"):
        await visitor.ask(who, "POST", "/v1/jobs", status=202, json={"command": ["true"]}, headers=key)
    assert len(jobs_of(visitor)) == 2


async def test_two_people_of_one_name_in_different_groups_share_no_keys(visitor: Visitor) -> None:
    visitor.setting.follower.tell("admission", UserSet(user=User(name="una", group="t2"), by="root"))
    visitor.setting.tokens["other una"] = visitor.setting.issue("user", user="una", groups=("t2",), expires_ms=1 << 50)
    key = {"Idempotency-Key": "k-1"}
    mine = await visitor.ask("una", "POST", "/v1/jobs", status=202, json={"command": ["private"]}, headers=key)
    theirs = await visitor.ask("other una", "POST", "/v1/jobs", status=202, json={"command": ["x"]}, headers=key)
    assert (mine["spec"]["group"], theirs["spec"]["group"]) == ("t1", "t2")


async def test_who_a_key_and_a_user_are_cannot_be_read_in_two_ways(visitor: Visitor) -> None:
    keys = {}
    for who, key in (("una", "b:c"), ("una", 'b","c'), ("una", "b"), ("hana", "b")):
        await visitor.ask(
            who, "POST", "/v1/jobs", status=202, json={"command": ["true"]}, headers={"Idempotency-Key": key}
        )
        request = visitor.setting.bus.requests[-1]
        assert isinstance(request, r.SubmitJobs)
        keys[who, key] = request.submit_id
    assert len(set(keys.values())) == len(keys)
    assert all(":owner:" not in one and one.startswith("key:") for one in keys.values())


async def test_a_key_that_cannot_be_one_is_refused(visitor: Visitor) -> None:
    for key in ("x" * 129, "ä"):
        response = await visitor.call(
            "una", "POST", "/v1/jobs", json={"command": ["true"]}, headers={"Idempotency-Key": key}
        )
        assert response.status == 400


async def test_a_lost_answer_is_asked_for_again_and_admits_once(visitor: Visitor) -> None:
    visitor.setting.bus.lost_answers = 1
    asking = asyncio.ensure_future(visitor.submit("una"))
    await _let_time_pass(visitor, asking)
    assert (await asking)["id"] == 1
    assert len(jobs_of(visitor)) == 1
    first, second = visitor.setting.bus.requests
    assert isinstance(first, r.SubmitJobs)
    assert isinstance(second, r.SubmitJobs)
    assert first.submit_id == second.submit_id


async def test_a_change_of_leader_is_not_seen_by_the_client(visitor: Visitor) -> None:
    visitor.setting.bus.failing = [TemporaryError("nobody listens") for _ in range(5)]
    asking = asyncio.ensure_future(visitor.submit("una"))
    await _let_time_pass(visitor, asking)
    assert (await asking)["state"] == "waiting"


async def test_when_nobody_answers_the_client_is_told_when_to_come_back(visitor: Visitor) -> None:
    visitor.setting.bus.failing = [OutcomeUnknownError("no answer") for _ in range(1000)]
    asking = asyncio.ensure_future(visitor.call("una", "POST", "/v1/jobs", json={"command": ["true"]}))
    await _let_time_pass(visitor, asking)
    response = await asking
    assert response.status == 503
    assert int(response.headers["Retry-After"]) >= 1
    assert (await response.json())["code"] == "unavailable"


async def _let_time_pass(visitor: Visitor, asking: asyncio.Future[Any]) -> None:
    for _ in range(2000):
        if asking.done():
            return
        await visitor.setting.clock.advance(0.1)


async def test_a_client_that_hangs_up_leaves_a_whole_job_or_none(visitor: Visitor) -> None:
    """Case M08: the connection is cut after every number of bytes, and while the request is judged."""
    setting = visitor.setting
    port = visitor.client.port
    body = json.dumps({"command": ["true"], "gpus": 1}).encode()
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Authorization: {setting.headers('una')['Authorization']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    whole = head + body
    setting.bus.held.clear()
    for cut in range(0, len(whole) + 1, 7):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(whole[:cut] if cut + 7 <= len(whole) else whole)
        await writer.drain()
        writer.transport.abort()
        await asyncio.sleep(0)
    setting.bus.held.set()
    await visitor.ask("una", "GET", "/v1/whoami")
    admitted = [fact for message in setting.world.log for fact in message.facts if isinstance(fact, JobAdmitted)]
    assert len(admitted) == len(jobs_of(visitor)) == len(setting.bus.requests)
    assert setting.world.state.unfinished.get("t1", 0) == len(admitted)
    await asyncio.sleep(0)
    assert setting.in_flight() == 0


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "malformed_json"),
        (b"", 400, "malformed_json"),
        (b"\xff\xfe", 400, "malformed_json"),
        (b"[" * 100_000, 400, "malformed_json"),
        (b'{"gpus": NaN}', 400, "malformed_json"),
        (b"[]", 422, "invalid_fields"),
        (b"null", 422, "invalid_fields"),
        (b'"job"', 422, "invalid_fields"),
        (b"{}", 422, "invalid_fields"),
        (b'{"command": ["true"], "gpus": 1e400}', 400, "malformed_json"),
        (b'{"command": ["true"], "gpus": 123456789012345678901234567890}', 422, "invalid_fields"),
        (b'{"command": ["true"], "gpu_memry": "8000Mi"}', 422, "invalid_fields"),
        (b'{"command": ["true"], "group": "t2"}', 403, "forbidden"),
        (b'{"command": ["true"], "group": "t9"}', 403, "forbidden"),
        (b'{"command": ["true"], "user": "vic"}', 403, "forbidden"),
        (b'{"command": ["true"], "pool": "moon"}', 422, "refused"),
        (b'{"command": ["true"], "level": "moon"}', 422, "refused"),
        (b'{"command": ["true"], "after": 99}', 422, "refused"),
    ],
)
async def test_bad_bodies_are_refused_and_change_nothing(visitor: Visitor, body: bytes, status: int, code: str) -> None:
    before = len(jobs_of(visitor))
    problem = await visitor.ask(
        "una", "POST", "/v1/jobs", status=status, data=body, headers={"Content-Type": "application/json"}
    )
    assert problem["code"] == code
    assert len(jobs_of(visitor)) == before


async def test_a_body_of_ten_megabytes_is_refused(visitor: Visitor) -> None:
    problem = await visitor.ask(
        "una", "POST", "/v1/jobs", status=413, data=BytesIO(b"x" * (10 << 20)), headers={"Content-Type": JSON}
    )
    assert problem["code"] == "body_too_large"


async def test_a_body_that_is_not_said_to_be_json_is_refused(visitor: Visitor) -> None:
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "application/yaml"):
        response = await visitor.call("una", "POST", "/v1/jobs", data=b"{}", headers={"Content-Type": media_type})
        assert response.status == 415


async def test_a_body_that_does_not_come_holds_nobody(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_call, "BODY_S_MAX", 0.05)
    for_ever = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await for_ever.wait()

    asking = visitor.call("una", "POST", "/v1/jobs", data=body(), headers={"Content-Type": JSON})
    async with asyncio.timeout(20):
        assert (await asking).status == 400
    for_ever.set()


async def test_a_batch_must_be_a_list_of_jobs_within_its_limit(visitor: Visitor) -> None:
    for body in ({}, {"jobs": []}, {"jobs": {}}, {"job": []}, [], {"jobs": [{"command": ["true"]}] * 1001}):
        await visitor.ask("una", "POST", "/v1/jobs:batch", status=422, json=body)
    assert not jobs_of(visitor)
