"""Objects of our own kinds: what is asked in them is done or answered, and nobody's word is written over."""

import asyncio
import json
from typing import Any

import msgspec
from tests.kubernetes.house import JOBS, NAMESPACE, House, opened
from tests.kubernetes.test_elastic import elastic

from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_kubernetes.definitions import definitions
from gangline_wire.requests import SetHold
from kubedouble.store import Change

MERGE = "application/merge-patch+json"


def told(house: House, reason: str) -> list[str]:
    """Messages of the events with this reason."""
    return [one["message"] for one in house.stored("/events", NAMESPACE) if one["reason"] == reason]


async def patch(house: House, name: str, **spec: Any) -> None:
    """Somebody changes a Job object, and it is looked at."""
    after = await house.ask("PATCH", f"{JOBS}/{name}", {"spec": spec}, MERGE)
    await house.until(lambda: house.status(name)["observedGeneration"] == after["metadata"]["generation"])


def test_sealed_values_of_all_roles_are_in_the_jobs_secret() -> None:
    live(roles_story())


async def roles_story() -> None:
    async with opened(nodes=1) as house:
        roles = [
            {"name": name, "gpus": 1, "command": ["x"], "env": {f"{name.upper()}_TOKEN": f"s3cr3t-{name}"}}
            for name in ("a", "b")
        ]
        await house.apply("two", roles=roles)
        await house.phase("two", "Running")
        (secret,) = house.stored("/secrets", NAMESPACE)
        assert set(secret["stringData"].values()) == {"s3cr3t-a", "s3cr3t-b"}
        for pod in await house.pods():
            named = [one["valueFrom"] for one in pod["spec"]["containers"][0]["env"] if "valueFrom" in one]
            assert {one["secretKeyRef"]["key"] for one in named} <= set(secret["stringData"])
            assert named


def test_without_any_grace_a_pod_is_still_not_forgotten_while_it_runs() -> None:
    live(grace_story())


async def grace_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await house.apply("train", gpus=1, command=["x"], grace=0)
        await house.phase("train", "Running")
        (pod,) = await house.pods()
        assert pod["spec"]["terminationGracePeriodSeconds"] == 1
        asked: list[int] = []

        def note(change: Change) -> None:
            meta = change.after["metadata"]
            if change.storage == "/pods" and "deletionGracePeriodSeconds" in meta:
                asked.append(meta["deletionGracePeriodSeconds"])

        house.double.store.listeners.append(note)
        await house.ask("DELETE", f"{JOBS}/train")
        await house.until(lambda: bool(house.job(1).state == JobState.CANCELLED))
        assert asked[0] == 1, "what comes after is the kubelet's, which has seen it end"


def test_every_change_without_effect_is_told_and_those_with_one_are_not() -> None:
    live(change_story())


async def change_story() -> None:
    async with opened(nodes=1) as house:
        await elastic(house, "grows", min=2)
        await house.phase("grows", "Running")
        await patch(house, "grows", tasks=5)
        await house.until(lambda: house.job(1).sizes == {"worker": 5})
        assert not told(house, "ChangeIgnored"), "a wish for a size"
        await house.apply("train", gpus=1, command=["x"], retries=1, labels={"a": "b"})
        await patch(house, "train", hold=True)
        await patch(house, "train", hold=False)
        await patch(house, "train", labels={"a": "c"})
        assert not told(house, "ChangeIgnored")
        await patch(house, "train", time_limit="12h")
        await house.until(lambda: bool(told(house, "ChangeIgnored")))
        assert "job 2 stays as it was admitted" in told(house, "ChangeIgnored")[0]
        assert house.job(2).spec.time_limit_s == 0


def test_another_size_does_not_release_what_an_operator_holds() -> None:
    live(held_story())


async def held_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        await house.apply("train", gpus=1, command=["x"], tasks=1, min=1, max=2)
        await house.phase("train", "Running")
        await house.world.ask(SetHold(job=1, held=True, by="ann"))
        await house.until(lambda: house.job(1).state in (JobState.HELD, JobState.SUSPENDED))
        await patch(house, "train", tasks=2)
        await asyncio.sleep(10)
        assert house.job(1).state in (JobState.HELD, JobState.SUSPENDED)
        await patch(house, "train", hold=True)
        await patch(house, "train", hold=False)
        await house.until(lambda: house.job(1).state not in (JobState.HELD, JobState.SUSPENDED))


def test_an_elastic_job_that_names_no_size_can_be_scaled() -> None:
    live(unsized_story())


async def unsized_story() -> None:
    async with opened(nodes=1, gpus=4) as house:
        await house.apply("train", gpus=1, command=["x"], min=1, max=2)
        await house.phase("train", "Running")
        await house.ask("PATCH", f"{JOBS}/train/scale", {"spec": {"replicas": 2}}, MERGE)
        await house.until(lambda: list(house.job(1).sizes.values()) == [2])
        assert (await house.object("train"))["spec"]["tasks"] == 2


def test_a_status_is_never_written_over_a_change_that_we_have_not_seen() -> None:
    live(status_story())


async def status_story() -> None:
    async with opened(nodes=1) as house:
        seen: list[tuple[int, dict[str, Any]]] = []
        handle = house.double.handle

        async def between(method: str, path: str, query: str = "", data: bytes = b"", headers: Any = None) -> Any:
            """Somebody changes the object just before our first status comes."""
            if method == "PATCH" and path == f"{JOBS}/train/status":
                if not seen:
                    body = msgspec.json.encode({"metadata": {"annotations": {"by": "somebody"}}})
                    await handle("PATCH", f"{JOBS}/train", "", body, {"Content-Type": MERGE})
                answer = await handle(method, path, query, data, headers or {})
                seen.append((answer.status, json.loads(data)))
                return answer
            return await handle(method, path, query, data, headers or {})

        house.double.handle = between  # type: ignore[assignment,method-assign]  # a client in between
        await house.apply("train", gpus=1, command=["x"])
        found = await house.phase("train", "Running")
        assert [code for code, _ in seen[:2]] == [409, 200]
        assert all(body["metadata"]["resourceVersion"] for _, body in seen)
        assert found["metadata"]["annotations"]["by"] == "somebody"


def test_events_of_objects_with_long_names_have_valid_names() -> None:
    live(long_story())


async def long_story() -> None:
    async with opened(nodes=1) as house:
        name = "a" * 199 + "-" + "b" * 20
        spec = {"name": "short", "gpus": 1, "command": ["x"]}
        await house.ask("POST", JOBS, {"metadata": {"name": name}, "spec": spec})
        await house.phase(name, "Running")
        await house.until(lambda: bool(house.stored("/events", NAMESPACE)))
        assert all("-." not in one["metadata"]["name"] for one in house.stored("/events", NAMESPACE))


def test_no_schema_says_that_nothing_is_required() -> None:
    def look(schema: Any) -> None:
        if isinstance(schema, dict):
            assert schema.get("required") != []
            for inner in schema.values():
                look(inner)
        elif isinstance(schema, list):
            for inner in schema:
                look(inner)

    look(definitions())


def test_a_refused_object_is_mended_where_it_is_and_an_admitted_one_stays() -> None:
    live(mended_story())


async def mended_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", command=["x"], group="other")
        await house.phase("train", "Refused")

        async def change(**spec: Any) -> int:
            data = msgspec.json.encode({"spec": spec})
            form = {"Content-Type": "application/merge-patch+json"}
            answer = await house.double.handle("PATCH", f"{JOBS}/train", "", data, form)
            return answer.status

        assert await change(group="lab", tasks=2) == 200
        await house.phase("train", "Running")
        for other in ({"group": "lab/x"}, {"group": None}, {"image": "y:1"}, {"tasks": 3}):
            assert await change(**other) == 422, other
