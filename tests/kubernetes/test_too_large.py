"""Requests and objects that are larger than servers take: refused once and told, never tried for ever."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.kubernetes.house import NAMESPACE, House, opened

from dollhouse.loop import live
from gangline_kubernetes.api import RefusedError
from gangline_kubernetes.statuses import NODES_MAX, SHORT_CHARS, shortened
from kubedouble.faults import Fault
from kubedouble.server import Double
from kubedouble.sizes import BODY_BYTES_MAX, DATA_BYTES_MAX, OBJECT_BYTES_MAX

CONFIGS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


async def asked(double: Double, method: str, path: str, body: Any, form: str = "application/json") -> tuple[int, str]:
    """Code and message of the answer."""
    answer = await double.handle(method, path, "", msgspec.json.encode(body), {"Content-Type": form})
    return answer.status, msgspec.json.decode(answer.body).get("message", "")


def test_the_double_refuses_what_is_too_large_as_servers_do() -> None:
    asyncio.run(sizes_story())


async def sizes_story() -> None:
    double = Double(lambda: 0.0)
    path = "/api/v1/namespaces/default/podtemplates"
    notes = {"a": "x" * 200_000}
    body = {"metadata": {"name": "t"}, "template": {"text": "x" * (BODY_BYTES_MAX + 1)}}
    assert await asked(double, "POST", path, body) == (413, f"Request entity too large: limit is {BODY_BYTES_MAX}")
    body = {"metadata": {"name": "t"}, "template": {"text": "x" * OBJECT_BYTES_MAX}}
    assert await asked(double, "POST", path, body) == (500, "etcdserver: request is too large")
    body = {"metadata": {"name": "t"}, "template": {"text": "x" * (OBJECT_BYTES_MAX - 100_000)}}
    assert (await asked(double, "POST", path, body))[0] == 201
    code, why = await asked(double, "PATCH", f"{path}/t", {"metadata": {"annotations": notes}}, MERGE)
    assert (code, why) == (500, "etcdserver: request is too large"), "many small changes come to the same"
    data = {"a": "x" * DATA_BYTES_MAX, "b": "y"}
    code, why = await asked(double, "POST", CONFIGS, {"metadata": {"name": "c"}, "data": data})
    assert code == 422
    assert "data: Too long" in why


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (413, "Request entity too large: limit is 3145728", True),
        (500, "etcdserver: request is too large", True),
        (500, "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)", True),
        (500, "etcdserver: request timed out", False),
        (429, "Too many requests, please try again later.", False),
    ],
)
def test_what_is_too_large_is_told_from_what_passes(code: int, message: str, expected: bool) -> None:
    assert RefusedError(code, "", message).is_too_large == expected


def words(house: House) -> set[str]:
    """Reasons of all events."""
    return {one["reason"] for one in house.stored("/events", NAMESPACE)}


def test_a_job_whose_pods_no_server_takes_fails_and_says_so() -> None:
    live(large_pods_story())


async def large_pods_story() -> None:
    """What a job file may say fits into a pod; what others put in, such as sidecars, may not."""
    async with opened(nodes=1) as house:
        why = "etcdserver: request is too large"
        house.double.faults.add(Fault(method="POST", path="/pods", status=500, reason="", message=why, times=10_000))
        await house.apply("wide", gpus=1, command=["x"])
        status = await house.phase("wide", "Failed")
        assert why in status["status"]["message"]
        posts = [path for method, path in house.double.requests if method == "POST" and path.endswith("/pods")]
        assert len(posts) == 1, "it is not tried again"
        assert not house.world.state.kept.tasks


@pytest.mark.parametrize(("room", "told"), [(5_000, "whole"), (900, "short"), (0, "event")])
def test_an_object_that_has_hardly_room_is_told_in_few_words_or_by_an_event(room: int, told: str) -> None:
    live(full_object_story(room, told))


async def full_object_story(room: int, told: str) -> None:
    """Nobody admits such a job; but somebody has to be told so."""
    wrong = {field: "nonsense" for field in ("gpus", "cpus", "memory", "time_limit", "grace", "estimate", "repair")}
    async with opened(nodes=1) as house:
        await house.apply("empty", command=["x"], env={}, **wrong)
        status = await house.phase("empty", "Refused")
        assert len(status["status"]["message"]) > 2 * SHORT_CHARS
        bare = {key: value for key, value in status.items() if key != "status"}
        left = OBJECT_BYTES_MAX - len(msgspec.json.encode(bare)) - room
        env = {f"V{number}": "x" * 65_000 for number in range(left // 65_100)}
        env["V"] = "x" * (left - len(msgspec.json.encode(env)) - 10)
        await house.apply("fully", command=["x"], env=env, **wrong)
        await asyncio.sleep(30)
        found = house.status("fully")
        assert ("TooLarge" in words(house)) == (told == "event")
        chars = {"whole": len(status["status"]["message"]), "short": SHORT_CHARS, "event": 0}
        assert len(found.get("message", "")) == chars[told]
        tries = [path for method, path in house.double.requests if path.endswith("fully/status")]
        assert len(tries) <= 4, "it is not tried for ever"


def test_a_short_status_says_the_same_in_fewer_words() -> None:
    conditions = [{"type": "Running", "status": "True", "reason": "Running", "message": "y" * 900}]
    status = {"phase": "Running", "message": "x" * 900, "nodes": ["a", "b"], "conditions": conditions}
    found = shortened(status)
    assert (found["phase"], found["nodesLeftOut"], len(found["message"])) == ("Running", 2, SHORT_CHARS)
    assert len(found["conditions"][0]["message"]) == SHORT_CHARS
    assert shortened({**status, "nodesLeftOut": 5})["nodesLeftOut"] == 7
    assert NODES_MAX == 1_000
