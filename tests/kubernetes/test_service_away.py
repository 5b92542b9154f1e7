"""A cluster whose own service is away: what runs goes on, nothing new is placed there, and it may be forgotten."""

from tests.kubernetes.house import House, Object, opened
from tests.make import spec

from dollhouse.loop import live
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_wire.requests import Denied, Done, ForgetNode


def running(house: House) -> list[Object]:
    return [pod for pod in house.stored("/pods") if pod["status"]["phase"] == "Running"]


def test_a_service_that_is_away_for_a_while_costs_nothing_that_runs() -> None:
    live(away_story())


async def away_story() -> None:
    async with opened(nodes=2) as house:
        await house.apply("train", gpus=8, command=["sleep"])
        await house.phase("train", "Running")
        await house.world.stop("kubernetes")
        nodes = house.world.state.kept.nodes
        await house.until(lambda: not any(node.takes_work for node in nodes.values()), within_s=90)
        [late] = await house.world.submit(spec(gpus=1, group="lab", user="ann"))
        await house.until(lambda: house.job(late).reason is not None)
        assert house.job(late).state == JobState.WAITING
        house.world.restart("kubernetes")
        await house.until(lambda: house.job(late).state == JobState.RUNNING, within_s=120)
        assert (house.job(1).attempt, house.job(1).state, len(running(house))) == (1, JobState.RUNNING, 2)


def test_a_cluster_that_was_forgotten_and_comes_back_runs_nothing_twice() -> None:
    live(back_story())


async def back_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", gpus=8, command=["sleep"])
        await house.phase("train", "Running")
        answer = await house.world.ask(ForgetNode(node="n0", gone=True, by="root"))
        assert isinstance(answer, Denied)
        await house.world.stop("kubernetes")
        await house.until(lambda: not house.world.state.kept.nodes[NodeId("n0")].takes_work, within_s=90)
        assert isinstance(await house.world.ask(ForgetNode(node="n0", gone=True, by="root")), Done)
        await house.until(lambda: not house.world.state.kept.nodes)
        assert house.job(1).state == JobState.WAITING
        house.world.restart("kubernetes")
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING, within_s=120)
        await house.until(lambda: len(running(house)) == 1)
