"""What runtimes say when they cannot start a container, and of containers that they lost: whose fault it is."""

from typing import Any

import pytest
from tests.kubernetes.house import House, Object, condition, opened

from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_kubernetes.reading import is_of_the_node
from kubedouble.kubelet import Life

HOOK = (
    "failed to create containerd task: OCI runtime create failed: error running hook #0: exit status 1, "
    "stderr: nvidia-container-cli: initialization error: driver error: timed out"
)
TYPING_ERROR = 'OCI runtime create failed: exec: "pyhton": executable file not found in $PATH'


def put(house: House, name: str, state: dict[str, Any], phase: str) -> str:
    """The kubelet says this of a job's only container; gives the node."""
    [pod] = [pod for pod in house.stored("/pods") if pod["metadata"]["name"].startswith(name)]
    status = {**pod["status"], "phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
    house.double.store.put("/pods", {**pod, "status": status}, pod)
    return str(pod["spec"]["nodeName"])


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_a_node_whose_runtime_starts_nothing_fails_no_job(reason: str) -> None:
    live(hook_story({"terminated": {"exitCode": 128, "reason": reason, "message": HOOK}}, "Failed"))


def test_a_node_whose_runtime_creates_nothing_fails_no_job() -> None:
    live(hook_story({"waiting": {"reason": "CreateContainerError", "message": "no space left on device"}}, "Pending"))


async def hook_story(state: dict[str, Any], phase: str) -> None:
    seen: list[Object] = []

    def life(pod: Object) -> Life:
        seen.append(pod)
        return Life(start_s=1000.0 if len(seen) == 1 else 1.0)

    async with opened(nodes=2, gpus=1, life=life) as house:
        await house.apply("train", gpus=1, command=["train"], retries=0)
        await house.until(lambda: len(house.stored("/pods")) == 1)
        node = put(house, "train", state, phase)
        await house.until(lambda: bool(house.world.state.kept.nodes[node].problem), 60)
        await house.phase("train", "Running", within_s=90)
        assert [task.node for task in house.world.state.tasks_of(house.job(1))] != [node]
        assert house.job(1).retries_used == 0


@pytest.mark.parametrize("message", [TYPING_ERROR, "nvidia-container-cli: requirement error: unsatisfied cuda>=13"])
def test_what_is_wrong_with_the_job_fails_it_with_the_runtimes_words(message: str) -> None:
    live(typing_error_story(message))


async def typing_error_story(message: str) -> None:
    async with opened(nodes=2, gpus=1, life=lambda pod: Life(start_s=10.0)) as house:
        await house.apply("train", gpus=1, command=["train"], retries=0)
        await house.until(lambda: len(house.stored("/pods")) == 1)
        put(house, "train", {"terminated": {"exitCode": 128, "reason": "StartError", "message": message}}, "Failed")
        found = await house.phase("train", "Failed")
        assert found["status"]["reason"] == ReasonCode.START_FAILED
        assert message in condition(found, "Finished")["message"]


def test_a_container_that_was_lost_with_its_machine_did_not_fail() -> None:
    live(lost_story())


async def lost_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await house.apply("train", gpus=1, command=["train"], retries=0)
        await house.phase("train", "Running")
        put(house, "train", {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}, "Failed")
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING)
        assert house.job(1).retries_used == 0


@pytest.mark.parametrize(
    ("message", "is_nodes"),
    [
        (HOOK, True),
        ("unresolvable CDI devices nvidia.com/gpu=GPU-1: CDI device injection failed", True),
        ("write /run/containerd/x: No space left on device", True),
        (TYPING_ERROR, False),
        ('secret "token" not found', False),
        ("", False),
    ],
)
def test_the_words_of_runtimes_are_told_apart(message: str, is_nodes: bool) -> None:
    assert is_of_the_node(message) == is_nodes
