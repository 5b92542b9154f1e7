"""In mode dra a number is one device for good, and only whole, well cards of complete pools are given out."""

import asyncio
from typing import Any

from tests.kubernetes.house import House, Object, opened
from tests.kubernetes.test_claims import STORED
from tests.kubernetes.test_devices import SLICES, offer

from dollhouse.loop import live
from gangline_core.cluster import Gpu
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import GpuShare, Task, TaskState
from gangline_kit.clock import SystemClock
from gangline_kubernetes.claims import Claims, Hold
from gangline_kubernetes.devices import (
    Allocation,
    Claim,
    ClaimStatus,
    Consumer,
    Device,
    DeviceChoice,
    DeviceTaint,
    ResourceSlice,
    Result,
    Results,
    RuleSpec,
    SlicePool,
    SliceSpec,
    TaintRule,
)
from gangline_kubernetes.objects import Meta
from gangline_kubernetes.offers import NOT_OFFERED, Offer, complete, gpus_of, numbers_of, ruled

MERGE = "application/merge-patch+json"


def gpus(house: House) -> tuple[Gpu, ...]:
    """The node's GPUs in the log."""
    return house.world.state.kept.nodes[NodeId("n0")].gpus


def held(house: House) -> dict[str, list[str]]:
    """Devices of each claim that has some."""
    return {
        one["metadata"]["name"]: [result["device"] for result in one["status"]["allocation"]["devices"]["results"]]
        for one in house.stored(STORED)
        if (one.get("status") or {}).get("allocation")
    }


async def publish(house: House, devices: list[Object], generation: int, count: int = 1) -> None:
    """The driver writes its slice anew."""
    pool = {"name": "n0", "generation": generation, "resourceSliceCount": count}
    await house.ask("PATCH", f"{SLICES}/n0-gpus", {"spec": {"pool": pool, "devices": devices}}, MERGE)


def devices_of(house: House) -> list[Object]:
    """What the driver offers."""
    found: list[Object] = house.stored("resource.k8s.io/resourceslices")[0]["spec"]["devices"]
    return found


def test_a_device_that_leaves_its_slice_moves_no_other_number_and_is_given_to_nobody() -> None:
    live(leaving_story())


async def leaving_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 4)
        await house.until(lambda: len(gpus(house)) == 4)
        for name in ("first", "kept"):
            await house.apply(name, gpus=1, command=["sleep"])
            await house.phase(name, "Running")
        (pod,) = await house.pods(**{"gangline.dev/job": "1"})
        house.kubelets.finish(pod, 0)
        await house.phase("first", "Succeeded")
        await house.until(lambda: len(held(house)) == 1)
        ((kept,),) = held(house).values()
        before = {gpu.device: gpu.index for gpu in gpus(house)}
        whole = devices_of(house)
        gone = next(one["name"] for one in whole if one["name"] != kept)
        await publish(house, [one for one in whole if one["name"] != gone], 2)
        await house.until(lambda: sum(not gpu.healthy for gpu in gpus(house)) == 1)
        assert {gpu.device: gpu.index for gpu in gpus(house)} == before
        assert [gpu.problem for gpu in gpus(house) if gpu.device == f"n0/{gone}"] == [NOT_OFFERED]
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        await house.apply("two", tasks=2, gpus=1, command=["sleep"])
        await house.phase("two", "Running")
        await house.apply("late", gpus=1, command=["sleep"])
        await asyncio.sleep(10)
        assert house.status("late")["phase"] == "Waiting"
        given = sorted(device for some in held(house).values() for device in some)
        assert given == sorted(one["name"] for one in whole if one["name"] != gone), (
            "each once, and not the one that left"
        )
        await publish(house, whole, 3)
        await house.phase("late", "Running")
        assert {gpu.device: gpu.index for gpu in gpus(house)} == before
        assert [gone] in held(house).values()


def test_devices_that_are_tainted_or_parts_of_cards_are_no_room() -> None:
    live(taint_story())


async def taint_story() -> None:
    sick = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}
    parts: list[Object] = [
        {"name": f"gpu-0-mig-{k}", "attributes": {"type": {"string": "mig"}}, "capacity": {"memory": {"value": "10Gi"}}}
        for k in range(3)
    ]
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 2)
        await house.until(lambda: len(gpus(house)) == 2)
        await house.apply("runs", tasks=1, gpus=2, command=["sleep"])
        await house.phase("runs", "Running")
        first, second = devices_of(house)
        await publish(house, [{**first, "taints": [sick]}, second, *parts], 2)
        await house.until(lambda: not gpus(house)[0].healthy)
        assert len(gpus(house)) == 2
        assert gpus(house)[0].problem == "tainted by its driver: gpu.nvidia.com/xid=79 (NoExecute)"
        (pod,) = await house.pods()
        house.kubelets.finish(pod, 0)
        await house.phase("runs", "Succeeded")
        await house.apply("pair", gpus=2, command=["sleep"])
        await asyncio.sleep(10)
        assert house.status("pair")["phase"] == "Waiting"
        await publish(house, [first, second, *parts], 3)
        await house.phase("pair", "Running")


def test_a_pool_of_which_slices_are_missing_stays_as_it_was() -> None:
    live(incomplete_story())


async def incomplete_story() -> None:
    async with opened(nodes=1, gpus=0, mode="dra") as house:
        await offer(house, "n0", 4)
        await house.until(lambda: len(gpus(house)) == 4)
        await publish(house, devices_of(house)[:2], 2, count=2)
        await asyncio.sleep(5)
        assert [gpu.healthy for gpu in gpus(house)] == [True] * 4
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        await asyncio.sleep(5)
        assert [gpu.healthy for gpu in gpus(house)] == [True] * 4, "nor does who never saw it whole call it gone"
        await publish(house, devices_of(house)[:2], 2, count=1)
        await house.until(lambda: [gpu.healthy for gpu in gpus(house)] == [True, True, False, False])


def offers(*names: str, **fields: Any) -> tuple[Offer, ...]:
    """What a driver offers by these names."""
    slices = [
        ResourceSlice(
            metadata=Meta(name="s"),
            spec=SliceSpec(pool=SlicePool(name="a/b"), devices=tuple(Device(name=name, **fields) for name in names)),
        )
    ]
    return complete(slices)["a/b"] or ()


def test_new_devices_get_new_numbers_and_no_device_of_the_log_is_numbered_anew() -> None:
    first = offers("gpu-1", "gpu-10", "gpu-2")
    numbers = numbers_of(first, ())
    assert [numbers["a/b", name] for name in ("gpu-1", "gpu-2", "gpu-10")] == [0, 1, 2]
    known = gpus_of(first, (), numbers, {})
    later = offers("gpu-0", "gpu-2", "gpu-10")
    after = numbers_of(later, known)
    assert [after["a/b", name] for name in ("gpu-0", "gpu-1", "gpu-2", "gpu-10")] == [3, 0, 1, 2]
    assert [(gpu.index, gpu.device, gpu.healthy) for gpu in gpus_of(later, known, after, {})] == [
        (0, "a/b/gpu-1", False),
        (1, "a/b/gpu-2", True),
        (2, "a/b/gpu-10", True),
        (3, "a/b/gpu-0", True),
    ]


def test_a_card_that_parts_may_be_taken_of_is_no_whole_one() -> None:
    assert offers("gpu-0", consumes_counters=({"counterSet": "c"},)) == ()


def test_a_device_in_a_living_tasks_claim_is_free_only_for_who_shares_it_in_the_log() -> None:
    task = Task(
        id=TaskId("1.0"),
        job=JobId(1),
        attempt=1,
        role="main",
        index=0,
        rank=0,
        node=NodeId("n0"),
        gpus=(GpuShare(index=1, milli=500, memory_mib=0),),
        cpu_milli=0,
        memory_mib=0,
        group="lab",
        user="ann",
        state=TaskState.STARTED,
        placed_ms=0,
    )
    tasks = {task.id: task}
    claims = Claims("gpu.nvidia.com", SystemClock(), lambda: tasks)
    claims.pods["pod"] = TaskId("1.0")
    results = Results((Result("gpu.nvidia.com", "n0", "gpu-1"),))
    status = ClaimStatus(allocation=Allocation(results), reserved_for=(Consumer("pods", "a", "pod"),))
    claims.hear(None, Claim(metadata=Meta(name="a", namespace="x", uid="c"), status=status))

    def hold(index: int, milli: int) -> Hold:
        return claims.hold(("n0", "gpu-1"), but="other", share=GpuShare(index=index, milli=milli, memory_mib=0))

    assert hold(1, 500) is Hold.FREE
    assert hold(1, 600) is Hold.TAKEN
    assert hold(0, 500) is Hold.TAKEN
    tasks.clear()
    assert hold(0, 500) is Hold.OURS_ENDING


RULES = "/apis/resource.k8s.io/v1alpha3/devicetaintrules"


def test_a_device_that_a_rule_taints_gets_nothing_new_until_the_rule_is_gone() -> None:
    live(rule_story())


async def rule_story() -> None:
    async with opened(nodes=2, gpus=0, mode="dra") as house:
        await offer(house, "n0", 2)
        await offer(house, "n1", 1)
        await house.until(lambda: len(gpus(house)) == 2)
        taint = {"key": "example.com/broken", "effect": "NoSchedule"}
        chosen = {"driver": "gpu.nvidia.com", "pool": "n0"}
        rule = {"metadata": {"name": "check-n0"}, "spec": {"deviceSelector": chosen, "taint": taint}}
        await house.ask("POST", RULES, rule)
        await house.until(lambda: not any(gpu.healthy for gpu in gpus(house)))
        assert "check-n0: example.com/broken (NoSchedule)" in gpus(house)[0].problem
        for name in ("one", "two"):
            await house.apply(name, gpus=1, command=["sleep"])
        await house.phase("one", "Running")
        await asyncio.sleep(20)
        assert [pod["spec"]["nodeName"] for pod in await house.pods()] == ["n1"]
        await house.ask("DELETE", f"{RULES}/check-n0")
        await house.phase("two", "Running")


def test_rules_about_other_devices_and_without_effect_taint_nothing() -> None:
    place = ("n0", "gpu-1")
    one = Offer(place=place, model="m", memory_mib=1, uuid="u", socket=0, problem="")

    def rule(effect: str = "NoExecute", **chosen: str) -> TaintRule:
        choice = DeviceChoice(**chosen) if chosen else None
        return TaintRule(Meta(name="r"), RuleSpec(choice, DeviceTaint(key="k", effect=effect)))

    for other in (rule(driver="x"), rule(pool="n1"), rule(pool="n0", device="gpu-2"), rule(), rule("None", pool="n0")):
        assert ruled([one], [other], "d") == (one,)
    for mine in (rule(pool="n0"), rule(driver="d"), rule(pool="n0", device="gpu-1"), rule("NoSchedule", driver="d")):
        assert ruled([one], [mine], "d")[0].problem
