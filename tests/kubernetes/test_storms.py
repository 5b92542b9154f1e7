"""Whoever waits long is told little: events and writes do not grow with the rounds that pass."""

import asyncio

import pytest
from tests.kubernetes.house import NAMESPACE, House, opened
from tests.kubernetes.test_adopted import make

from dollhouse.loop import live
from gangline_kubernetes.api import RETRY_ASKED_S_MAX, asked_s

ROUNDS = 40


async def turns(house: House) -> None:
    """Jobs come and go for twenty minutes, each one a reason for rounds."""
    for number in range(ROUNDS):
        await house.apply(f"short-{number}", cpus=1, command=["sleep"])
        await house.phase(f"short-{number}", "Running")
        (pod,) = (one for one in await house.pods() if one["metadata"]["name"].startswith(f"short-{number}-"))
        house.kubelets.finish(pod, 0)
        await house.phase(f"short-{number}", "Succeeded")
        await asyncio.sleep(30)


def test_a_job_that_waits_for_many_rounds_brings_no_storm_of_events() -> None:
    live(storm_story())


async def storm_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await house.apply("runs", gpus=1, command=["sleep"])
        await house.phase("runs", "Running")
        waits = await house.apply("waits", gpus=1, command=["sleep"])
        await house.phase("waits", "Waiting")
        await make(house, "pod")
        await asyncio.sleep(60)
        seq, requests = house.world.state.kept.seq, len(house.double.requests)
        await turns(house)
        assert house.world.state.kept.seq - seq > 4 * ROUNDS, "much has happened"
        events = [one for one in house.stored("/events") if one["involvedObject"]["uid"] == waits["metadata"]["uid"]]
        assert 1 <= len(events) <= 3
        asked = house.double.requests[requests:]
        statuses = [path for method, path in asked if method == "PATCH" and path.endswith("/jobs/waits/status")]
        assert len(statuses) <= 2 * 30, "at most two a minute, for its numbers"
        told = [path for method, path in asked if method == "PATCH" and path.endswith(f"{NAMESPACE}/pods/pod/status")]
        assert len(told) <= 2
        assert len(house.stored("/events")) < 6 * ROUNDS, "a few for each job that lived"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0.0),
        ("3", 3.0),
        ("999999", RETRY_ASKED_S_MAX),
        ("Thu, 01 Jan 1970 00:00:25 GMT", 5.0),
        ("Thu, 01 Jan 1970 00:00:05 GMT", 0.0),
        ("Thu, 01 Jan 2070 00:00:05 GMT", RETRY_ASKED_S_MAX),
        ("soon", 0.0),
        ("-1", 0.0),
        ("nan", 0.0),
        ("1.5", 0.0),
    ],
)
def test_a_server_may_say_when_to_come_again_in_seconds_or_as_a_date(text: str, seconds: float) -> None:
    assert asked_s(text, 20_000) == seconds
