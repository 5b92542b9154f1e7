"""A cluster whose API server is away: nothing new is placed there, what runs goes on, and all is well after it."""

import asyncio

import pytest
from tests.kubernetes.house import House, opened
from tests.make import spec

from dollhouse.loop import live
from gangline_core.facts import NodeLost
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from kubedouble.faults import Fault

AWAY = "the API server of kubernetes, its Kubernetes cluster, does not answer"


def go_away(house: House) -> None:
    house.double.faults.away = True
    house.double.store.hang_up()


def takes_work(house: House) -> list[bool]:
    return [node.takes_work for node in house.world.state.kept.nodes.values()]


def test_a_cluster_whose_api_server_is_away_takes_no_new_work_until_it_answers() -> None:
    live(away_story())


async def away_story() -> None:
    async with opened(nodes=2) as house:
        await house.apply("train", gpus=8, command=["sleep"])
        await house.phase("train", "Running")
        go_away(house)
        await asyncio.sleep(45)
        assert takes_work(house) == [True, True], "a moment is nothing"
        await house.until(lambda: not any(takes_work(house)), within_s=40)
        assert {node.problem for node in house.world.state.kept.nodes.values()} == {AWAY}
        [late] = await house.world.submit(spec(gpus=1, group="lab", user="ann"))
        await house.until(lambda: house.job(late).reason is not None)
        assert house.job(late).state == JobState.WAITING
        await asyncio.sleep(600)
        assert (house.job(1).state, house.job(1).attempt) == (JobState.RUNNING, 1)
        house.double.faults.away = False
        await house.until(lambda: house.job(late).state == JobState.RUNNING, within_s=60)
        assert all(takes_work(house))
        assert (house.job(1).state, house.job(1).attempt) == (JobState.RUNNING, 1)


def test_a_job_placed_just_before_the_api_server_went_goes_elsewhere_and_runs_once() -> None:
    live(just_before_story())


async def just_before_story() -> None:
    async with opened(nodes=1) as house:
        go_away(house)
        [late] = await house.world.submit(spec(gpus=1, group="lab", user="ann", retries=0))
        await house.until(lambda: house.job(late).state == JobState.STARTING)
        await house.until(lambda: house.job(late).state == JobState.WAITING, within_s=150)
        assert house.job(late).retries_used == 0
        house.double.faults.away = False
        await house.until(lambda: house.job(late).state == JobState.RUNNING, within_s=90)
        assert len(house.stored("/pods")) == 1


@pytest.mark.parametrize("mode", ["count", "dra"])
def test_a_service_that_begins_while_the_api_server_is_away_closes_what_the_log_knows(mode: str) -> None:
    live(begins_story(mode))


async def begins_story(mode: str) -> None:
    async with opened(nodes=2, mode=mode) as house:
        [first] = await house.world.submit(spec(gpus=0, group="lab", user="ann"))
        await house.until(lambda: house.job(first).state == JobState.RUNNING)
        before = dict(house.world.state.kept.nodes)
        await house.world.crash("kubernetes")
        go_away(house)
        house.world.restart("kubernetes")
        await house.until(lambda: not any(takes_work(house)), within_s=30)
        assert {node.problem for node in house.world.state.kept.nodes.values()} == {AWAY}
        await asyncio.sleep(300)
        assert house.job(first).state == JobState.RUNNING
        house.double.faults.away = False
        await house.until(lambda: all(takes_work(house)), within_s=90)
        assert [node.gpus for node in house.world.state.kept.nodes.values()] == [node.gpus for node in before.values()]
        assert (house.job(first).state, house.job(first).attempt) == (JobState.RUNNING, 1)


def test_a_server_that_refuses_whatever_we_ask_is_told_as_that_and_fails_no_job() -> None:
    live(refuses_story())


async def refuses_story() -> None:
    async with opened(nodes=1) as house:
        word = "Unauthorized"
        fault = house.double.faults.add(Fault(status=401, reason=word, message=word, times=1_000_000))
        house.double.store.hang_up()
        [late] = await house.world.submit(spec(gpus=1, group="lab", user="ann", retries=0))
        await house.until(lambda: not any(takes_work(house)), within_s=120)
        assert "refuses what Gangline asks it: 401 Unauthorized" in house.world.state.kept.nodes[NodeId("n0")].problem
        fault.times = 0
        await house.until(lambda: house.job(late).state == JobState.RUNNING, within_s=120)


@pytest.mark.parametrize(
    ("status", "reason", "message", "times"),
    [
        (429, "TooManyRequests", "too many requests, please try again later", 40),
        (401, "Unauthorized", "Unauthorized", 40),
        (403, "Forbidden", 'pods is forbidden: User "us" cannot create resource "pods" in API group "" at all', 8),
    ],
)
def test_what_is_refused_for_our_own_sake_for_a_while_fails_no_job(
    status: int, reason: str, message: str, times: int
) -> None:
    live(for_a_while_story(Fault(method="POST", path="/pods", status=status, reason=reason, message=message), times))


async def for_a_while_story(fault: Fault, times: int) -> None:
    async with opened(nodes=1) as house:
        fault.times = times
        house.double.faults.add(fault)
        [late] = await house.world.submit(spec(gpus=1, group="lab", user="ann", retries=0))
        await house.until(lambda: house.job(late).state == JobState.RUNNING, within_s=400)
        assert (house.job(late).attempt, fault.times) == (1, 0)


def test_a_right_that_stays_withdrawn_fails_the_job_with_the_servers_words() -> None:
    live(withdrawn_story())


async def withdrawn_story() -> None:
    async with opened(nodes=1) as house:
        words = 'pods is forbidden: User "us" cannot create resource "pods" in API group "" in the namespace "x"'
        house.double.faults.add(
            Fault(method="POST", path="/pods", status=403, reason="Forbidden", message=words, times=9_999)
        )
        [late] = await house.world.submit(spec(gpus=1, group="lab", user="ann", retries=0))
        await house.until(lambda: house.job(late).state == JobState.FAILED, within_s=150)
        reason = house.job(late).reason
        assert reason is not None
        assert (reason.code, words in str(reason.numbers["error"])) == (ReasonCode.START_FAILED, True)


def test_a_node_of_which_nobody_could_hear_that_it_is_ready_again_is_not_lost() -> None:
    live(unheard_story())


async def unheard_story() -> None:
    async with opened(nodes=2) as house:
        await house.apply("gang", tasks=2, gpus=8, command=["sleep"])
        await house.phase("gang", "Running")
        house.kubelets.set_ready("n0", "False")
        await asyncio.sleep(5)
        go_away(house)
        await asyncio.sleep(2)
        house.kubelets.set_ready("n0", "True")
        await asyncio.sleep(300)
        house.double.faults.away = False
        await asyncio.sleep(120)
        assert not [fact for fact in house.facts if isinstance(fact, NodeLost)]
        assert house.job(1).attempt == 1


def test_a_node_that_stays_not_ready_is_lost_although_its_watch_breaks_now_and_then() -> None:
    live(breaks_story())


async def breaks_story() -> None:
    async with opened(nodes=2) as house:
        house.kubelets.set_ready("n0", "False")
        for _ in range(4):
            await asyncio.sleep(25)
            house.double.faults.add(Fault(method="GET", path="/nodes", is_cut=True))
            house.double.store.hang_up()
        assert house.world.state.kept.nodes[NodeId("n0")].lost
