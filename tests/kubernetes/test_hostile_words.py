"""Words that anybody may write into labels and annotations: none of them keeps the service from everybody else."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.kubernetes.house import House, opened
from tests.kubernetes.test_adopted import make
from tests.kubernetes.test_owners import KIND, QUEUED, Operator, apply_owner, define, path, spec_of, suspended, template

from dollhouse.loop import live
from gangline_kubernetes import adoption
from gangline_kubernetes.adoption import gang_of, job_of, resources_of
from gangline_kubernetes.config import Config
from gangline_kubernetes.names import mark_of
from gangline_kubernetes.nodes import Terms, describe
from gangline_kubernetes.objects import KubeNode, Meta, Pod
from gangline_kubernetes.quantities import MOST, mebibytes, milli, whole
from kubedouble.server import Answer, Double

HUGE = ("1e999999999", "9e5000", "9" * 5000, "-1e999999999", "1e-999999999", "٣", "NaN", "0x10", "")
WORDS = (
    *adoption.QUEUE,
    *adoption.GANG,
    *adoption.SIZE,
    *adoption.SLICE_SIZE,
    *adoption.TIME_LIMIT,
    *adoption.GPU_COUNT,
    *adoption.FRACTION,
    *adoption.SHARE_MEMORY,
    *(name for names in adoption.INDEX for name in names),
    "gangline.dev/task",
    "gangline.dev/placed-ms",
)


@pytest.mark.parametrize("text", HUGE)
def test_an_amount_is_a_number_that_can_be_counted_with(text: str) -> None:
    for read in (whole, milli, mebibytes):
        for up in (False, True):
            assert -MOST <= read(text, up=up) <= MOST
    labels = {"nvidia.com/gpu.memory": text, "nvidia.com/gpu.product": "H100"}
    node = KubeNode(metadata=Meta(name="n", labels=labels))
    assert describe(node, Terms(agent="a", pool="p", gpu_resource="nvidia.com/gpu")).id == "n"


@given(st.sampled_from(WORDS), st.one_of(st.sampled_from(HUGE), st.text(max_size=40)))
def test_whatever_a_pod_says_it_can_be_read(word: str, text: str) -> None:
    pod = Pod(metadata=Meta(name="p", uid="u", annotations={word: text, "gangline.dev/cluster": "kubernetes"}))
    mark_of(pod, "kubernetes")
    gang_of(pod)
    resources_of(pod)
    job_of([[pod]], Config(), None, "nvidia.com/gpu")


@pytest.mark.parametrize(
    "notes",
    [
        {"gangline.dev/gang": "g", "gangline.dev/gang-size": "1e999999999"},
        {"gangline.dev/gang": "g", "gangline.dev/gang-size": "9e5000"},
        {"gangline.dev/gpu-memory": "1e999999999"},
        {"gangline.dev/task": "9" * 5000, "gangline.dev/placed-ms": "9" * 5000, "gangline.dev/cluster": "kubernetes"},
    ],
)
def test_a_pod_with_hostile_words_keeps_nobody_else_from_running(notes: dict[str, str]) -> None:
    live(hostile_story(notes))


async def hostile_story(notes: dict[str, str]) -> None:
    async with opened(nodes=1, gpus=1) as house:
        await make(house, "bad", annotations=notes, gpus=0)
        await asyncio.sleep(5)
        await serves(house)


def test_an_object_that_cannot_be_read_keeps_nobody_else_from_running() -> None:
    live(unreadable_story())


async def unreadable_story() -> None:
    kind = KIND["MPIJob"]
    async with opened(nodes=1, gpus=1) as house:
        await define(house, kind)
        await asyncio.sleep(65)
        await house.ask("POST", path(kind), {"metadata": {"name": "bad"}, "spec": None})
        await asyncio.sleep(5)
        await serves(house)


def test_a_number_that_is_none_on_an_owners_pod_fails_nothing_else() -> None:
    live(index_story())


async def index_story() -> None:
    kind = KIND["JobSet"]
    async with opened(nodes=1, gpus=2) as house:
        await define(house, kind)
        inner = {"spec": {"parallelism": 1, "completions": 1, "template": template()}}
        spec = {"suspend": True, "replicatedJobs": [{"name": "w", "replicas": 1, "template": inner}]}
        labels = {"kueue.x-k8s.io/queue-name": "lab"}
        made = await house.ask("POST", path(kind), {"metadata": {"name": "t", "labels": labels}, "spec": spec})
        await asyncio.sleep(70)
        above: dict[str, Any] = {"apiVersion": kind.group_version, "kind": kind.name, "name": "t", "controller": True}
        words = {"jobset.sigs.k8s.io/job-index": "x", "batch.kubernetes.io/job-completion-index": "9" * 5000}
        meta = {"annotations": words, "ownerReferences": [{**above, "uid": made["metadata"]["uid"]}]}
        await make(house, "p", **meta)
        await serves(house)


DEEP = "as deep as it goes"


def deepened(double: Double, depth: int) -> None:
    """From now on whatever says so is answered with so many lists inside each other."""
    ask, nest = double.handle, b"[" * depth + b"]" * depth

    def deep(data: bytes) -> bytes:
        return data.replace(json.dumps(DEEP).encode(), nest)

    async def lines(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in stream:
            yield deep(part)

    async def handle(*args: Any, **fields: Any) -> Answer:
        answer = await ask(*args, **fields)
        if not fields.get("headers") and "Authorization" not in args[4]:
            # Those who look on ask as well.
            return answer
        stream = None if answer.stream is None else lines(answer.stream)
        return replace(answer, body=deep(answer.body), stream=stream)

    double.handle = handle  # type: ignore[method-assign]  # the double's own encoder goes no deeper than ours


@pytest.mark.parametrize("depth", [150, 900, 990, 1_010, 100_000])
@pytest.mark.parametrize("where", ["spec", "status", "template"])
def test_an_object_that_is_nested_deeply_hides_no_other_one_of_its_kind(depth: int, where: str) -> None:
    live(deep_story(depth, where))


async def deep_story(depth: int, where: str) -> None:
    kind = KIND["JobSet"]
    async with opened(nodes=1, gpus=12) as house:
        await define(house, kind)
        Operator(house, kind)
        await asyncio.sleep(65)
        deepened(house.double, depth)
        await apply_owner(house, kind, "before")
        spec = spec_of("JobSet")
        inner = spec["replicatedJobs"][0]["template"]["spec"]["template"]
        (inner["spec"] if where == "template" else spec)["unknown"] = DEEP
        body = {"metadata": {"name": "deep", "labels": QUEUED}, "spec": spec}
        await house.ask("POST", path(kind), body | ({"status": {"unknown": DEEP}} if where == "status" else {}))
        await apply_owner(house, kind, "after")
        await asyncio.sleep(20)
        assert not suspended(house, kind, "after"), "it is seen as it comes"
        house.double.store.compact()
        house.double.store.hang_up()
        await asyncio.sleep(20)
        await apply_owner(house, kind, "last")
        await asyncio.sleep(20)
        assert not suspended(house, kind, "last"), "it is seen though all was listed anew"
        assert not house.world.failures


async def serves(house: House) -> None:
    """Others are served as ever."""
    await house.apply("good", tasks=1, gpus=1, command=["x"])
    await house.phase("good", "Running")
    assert not house.world.failures
