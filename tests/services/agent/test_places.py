"""From what a driver tells to where a job stands, and from there to what its process may use."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cases.drive import Drive
from tests.make import World, node, spec
from tests.services.agent.rig import rig
from tests.services.agent.tapes import mig_a100, player
from tests.services.agent.test_environment import PLACE, built

from gangline_agent import machine
from gangline_agent.runner import Order
from gangline_core.cluster import Gpu
from gangline_core.ids import TaskId
from gangline_core.spec import Resources, Role
from gangline_kit.carrying.orders import orders

SIZES = (1024, 30_480)


def linked(*pairs: tuple[int, int]) -> list[str]:
    """Eight cards of which these are linked, two by two."""
    lines = [
        "nvmlInit * 0",
        "nvmlDeviceGetCount * 0 8",
        "nvmlDeviceGetName * 0 NVIDIA A100-PCIE-40GB",
        "nvmlDeviceGetMemoryInfo * 0 42949672960 0",
        "nvmlDeviceGetNvLinkRemoteDeviceType * 0 0",
    ]
    other = {card: mate for pair in pairs for card, mate in (pair, pair[::-1])}
    for card in range(8):
        lines += [
            f"nvmlDeviceGetUUID {card + 1} 0 GPU-a100-{card}",
            f"nvmlDeviceGetPciInfo {card + 1} 0 0 {card + 1} 0",
        ]
        if card in other:
            lines.append(f"nvmlDeviceGetNvLinkState:0 {card + 1} 0 1")
            lines.append(f"nvmlDeviceGetNvLinkRemotePciInfo:0 {card + 1} 0 0 {other[card] + 1} 0")
    return lines


async def as_told(folder: Path, tape: list[str]) -> tuple[Gpu, ...]:
    async with player(folder) as driver:
        return machine.describe((), await driver.look(tape)).gpus


@pytest.mark.parametrize("pairs", [((0, 2), (1, 3), (4, 5), (6, 7)), ((0, 7), (1, 6), (2, 5), (3, 4))])
async def test_links_that_the_driver_tells_decide_which_cards_a_pair_gets(
    pairs: Sequence[tuple[int, int]], tmp_path: Path
) -> None:
    # NVIDIA/k8s-device-plugin#546, from the driver to the job
    gpus = await as_told(tmp_path, linked(*pairs))
    drive = Drive(replace(node("n1"), gpus=gpus))
    doubles = [drive.ask(k, gpus=2) for k in range(4)]
    drive.later(10, lambda: drive.drop(doubles[1]))
    again = drive.ask(11, gpus=2)
    drive.until(12)
    for ask in (doubles[0], *doubles[2:], again):
        [(_, cards)] = drive.gpus(ask)
        assert tuple(sorted(cards)) in pairs


async def test_a_slice_that_the_driver_tells_is_asked_for_by_profile_and_given_by_name(tmp_path: Path) -> None:
    cut = ((1, "3g.20gb", 4, 4), (7, "1g.5gb", 0, 1), (5, "2g.10gb", 2, 2))
    async with player(tmp_path) as driver:
        shown = machine.describe((), await driver.look(mig_a100(*cut)))
    world = World(replace(node("n1"), gpus=shown.gpus))
    names = {}
    for profile, milli in (("1g.5gb", 142), ("3g.20gb", 428), ("2g.10gb", 285), ("1g.5gb", 142)):
        need = Resources(gpu_milli=milli, mig=profile, cpu_milli=1000)
        worker = Role(name="worker", count=1, min_count=1, max_count=1, resources=need, command=("true",))
        job = world.submit(spec(roles=[worker]))
        world.round()
        names[job] = [machine.visible_devices(shown, task.gpus) for task in world.tasks(job)]
    assert list(names.values()) == [[("MIG-7-1g.5gb",)], [("MIG-1-3g.20gb",)], [("MIG-5-2g.10gb",)], []]


def two_jobs(*command: str) -> list[Order]:
    """Two shares of one card, of very different sizes."""
    world = World(node("n1", gpus=1, gpu_memory_mib=40_960))
    found = []
    for mib in SIZES:
        need = Resources(gpu_milli=0, gpu_memory_mib=mib, cpu_milli=100, memory_mib=64)
        worker = Role(name="worker", count=1, min_count=1, max_count=1, resources=need, command=command or ("true",))
        job = world.submit(spec(roles=[worker]))
        world.place(job, "n1")
        found += orders(world.state, [TaskId(name) for name in world.job(job).tasks])
    return found


def test_starts_of_one_instant_each_have_the_limits_of_their_own_allocation() -> None:
    # Project-HAMi/HAMi#404: a start and a restart within a millisecond, in both orders, a thousand times
    draw = random.Random(404)
    place = replace(PLACE, devices=("0",), has_mps=True)
    both = two_jobs()
    for _ in range(1000):
        order = draw.sample((0, 1), 2)
        made = {k: built(both[k], place).values["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] for k in order}
        assert made == {0: f"0={SIZES[0]}M", 1: f"0={SIZES[1]}M"}


@pytest.mark.parametrize("first", [0, 1])
async def test_processes_started_at_once_each_find_their_own_limit(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "mps"
    pipe.mkdir()
    (pipe / "control").touch()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(pipe))
    both = two_jobs("/bin/sh", "-c", "echo limit $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
    async with rig(tmp_path / "agent") as made:
        for k in (first, 1 - first):
            made.runner.start(both[k])
        for order in both:
            await made.heard(order, "limit")
    assert [made.output(order).strip() for order in both] == [f"limit 0={mib}M" for mib in SIZES]
