"""From a Job object to bound pods and back: everything a user of a cluster sees of a job's life."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from tests.kubernetes.house import JOBS, NAMESPACE, condition, opened

from dollhouse.loop import live
from gangline_core.job import JobState
from gangline_kubernetes.config import Config
from gangline_kubernetes.ownership import at_home
from gangline_wire.jobfile import parse_job
from gangline_wire.seal import seal
from kubedouble.faults import Fault

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DOCUMENTS = [
    document for path in sorted(EXAMPLES.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text("utf-8"))
]


def test_an_applied_job_runs_on_its_nodes_and_succeeds() -> None:
    live(applied_story())


async def applied_story() -> None:
    async with opened(nodes=2) as house:
        await house.apply("train", tasks=2, gpus=8, cpus=4, memory="16Gi", command=["python", "train.py"])
        found = await house.phase("train", "Running")
        assert found["status"]["nodes"] == ["n0", "n1"]
        assert condition(found, "Running")["status"] == "True"
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 1
        pods = await house.pods()
        assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["n0", "n1"]
        names = {(pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]) for pod in pods}
        known = house.world.state.kept.tasks.values()
        assert {task.pod for task in known} == {f"{NAMESPACE}/{pod}/{container}" for pod, container in names}
        for pod in pods:
            container = pod["spec"]["containers"][0]
            assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
            assert {"name": "WORLD_SIZE", "value": "2"} in container["env"]
            assert pod["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
            house.kubelets.finish_named(NAMESPACE, pod["metadata"]["name"])
        found = await house.phase("train", "Succeeded")
        assert condition(found, "Complete")["status"] == "True"
        assert house.job(found["status"]["job"]).state == JobState.SUCCEEDED
        assert not house.world.state.kept.tasks
        # A finished pod stays to be looked at, held by nothing, and goes with its Job.
        await house.until(lambda: all(not pod["metadata"].get("finalizers") for pod in house.stored("/pods")))
        await house.ask("DELETE", f"/apis/gangline.dev/v1alpha1/namespaces/{NAMESPACE}/jobs/train")
        await house.until(lambda: not house.stored("/pods") and not house.stored("gangline.dev/jobs"))


def test_a_job_that_outranks_others_gets_their_room_when_it_is_really_free() -> None:
    live(preemption_story())


async def preemption_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("low", gpus=8, command=["sleep"], level="low", grace="10s")
        await house.phase("low", "Running")
        await house.apply("high", gpus=8, command=["sleep"], level="high")
        found = await house.phase("high", "Running")
        low = await house.phase("low", "Waiting")
        assert condition(low, "Preempted")["status"] == "True"
        assert f"job {found['status']['job']}" in condition(low, "Preempted")["message"]
        assert low["status"]["preemptions"] == 1
        events = {event["reason"] for event in house.stored("/events")}
        assert {"Running", "Preempted"} <= events
        running = [pod for pod in await house.pods() if pod["status"]["phase"] == "Running"]
        assert [pod["metadata"]["name"][:4] for pod in running] == ["high"]


def test_work_of_a_lost_node_starts_elsewhere() -> None:
    live(loss_story())


async def loss_story() -> None:
    async with opened(nodes=2, loss_s=20.0) as house:
        await house.apply("train", gpus=8, command=["sleep"])
        found = await house.phase("train", "Running")
        (node,) = found["status"]["nodes"]
        house.kubelets.lose(node)
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING)
        await house.until(lambda: house.status("train")["nodes"] not in ([], [node]))
        # What the node held is free only when the node is back, or its object is gone.
        assert house.world.state.use[node].gpu_milli == [1000] * 8
        house.kubelets.remove(node)
        await house.until(lambda: not any(house.world.state.use[node].gpu_milli))


def test_a_deleted_object_ends_its_job_and_leaves_nothing() -> None:
    live(deletion_story())


async def deletion_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", gpus=1, command=["sleep"])
        await house.phase("train", "Running")
        await house.ask("DELETE", f"/apis/gangline.dev/v1alpha1/namespaces/{NAMESPACE}/jobs/train")
        await house.until(lambda: house.job(1).state == JobState.CANCELLED)
        await house.until(lambda: not house.stored("gangline.dev/jobs") and not house.stored("/pods"))


def test_a_job_of_the_http_api_runs_on_the_cluster_too() -> None:
    live(http_story())


async def http_story() -> None:
    from tests.make import role, spec

    async with opened(nodes=1) as house:
        (job,) = await house.world.submit(spec(group="lab", user="ann", roles=[role(tasks=1, gpus=1)]))
        await house.world.until(lambda state: state.kept.jobs[job].state == JobState.RUNNING)
        (pod,) = house.stored("/pods", "gangline-jobs")
        house.kubelets.finish(pod, 0)
        await house.world.until(lambda state: state.kept.jobs[job].state == JobState.SUCCEEDED)
        await house.until(lambda: not house.stored("/pods"))


def test_a_failing_pod_fails_its_job_with_its_exit_code() -> None:
    live(failure_story())


async def failure_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", tasks=2, gpus=1, command=["sleep"])
        await house.phase("train", "Running")
        pods = await house.pods()
        house.kubelets.finish(pods[0], 3)
        found = await house.phase("train", "Failed")
        assert found["status"]["exitCode"] == 3
        assert "exited with code 3" in found["status"]["message"]
        assert condition(found, "Failed")["status"] == "True"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["name"])
def test_an_applied_job_is_the_job_that_submitting_the_same_file_makes(document: dict[str, Any]) -> None:
    live(same_story(document))


async def same_story(document: dict[str, Any]) -> None:
    spec = {key: value for key, value in document.items() if key not in ("group", "name")}
    asked, _ = seal(parse_job(spec))
    async with opened(nodes=4, gpus=8) as house:
        body = {"apiVersion": "gangline.dev/v1alpha1", "kind": "Job", "metadata": {"name": document["name"]}}
        await house.ask("POST", JOBS, {**body, "spec": spec})
        await house.until(lambda: bool(house.status(document["name"])))
        status = house.status(document["name"])
        if status["phase"] == "Refused":
            # The same words that the door has for everybody: this small cluster cannot hold it.
            assert status["reason"].startswith("NeverFits")
            return
        made = house.job(status["job"]).spec
        assert made.name == document["name"]
        same = replace(made, name=asked.name, group=asked.group, user=asked.user, labels=asked.labels)
        # Beside that, what a cluster's object asks for stays on that cluster.
        assert same == replace(at_home(asked, Config()), time_limit_s=made.time_limit_s)


def test_members_reach_each_other_by_names_and_nothing_is_left_of_a_job_without_an_object() -> None:
    live(names_story())


def test_a_service_that_somebody_deleted_is_there_again_when_its_job_starts_anew() -> None:
    live(again_story())


async def again_story() -> None:
    async with opened(nodes=2, gpus=1) as house:
        await house.apply("train", tasks=2, gpus=1, command=["x"])
        await house.phase("train", "Running")
        (service,) = house.stored("/services")
        await house.ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}/services/{service['metadata']['name']}")
        await asyncio.sleep(20)
        house.kubelets.lose("n0")
        house.kubelets.add_node("n2", gpus=1)
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING, 300)
        assert [one["metadata"]["name"] for one in house.stored("/services")] == [service["metadata"]["name"]]


async def names_story() -> None:
    from tests.make import role, spec

    async with opened(nodes=2) as house:
        words = spec(group="lab", user="ann", roles=[role(tasks=2, gpus=8)], secrets=("API_TOKEN",))
        (job,) = await house.world.submit(words)
        await house.world.until(lambda state: state.kept.jobs[job].state == JobState.RUNNING)
        (service,) = house.stored("/services")
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"] is True
        pods = house.stored("/pods", "gangline-jobs")
        for pod in pods:
            assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
            assert pod["spec"]["subdomain"] == service["metadata"]["name"]
        told = {one["name"]: one.get("value") for one in pods[1]["spec"]["containers"][0]["env"]}
        assert told["MASTER_ADDR"] == f"{pods[0]['spec']['hostname']}.gangline-job-{job}.gangline-jobs.svc"
        assert (told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"], told["NODE_RANK"]) == ("0", "1", "1")
        assert house.stored("/secrets")
        for pod in pods:
            house.kubelets.finish(pod, 0)
        await house.world.until(lambda state: state.kept.jobs[job].state == JobState.SUCCEEDED)
        await house.until(lambda: not any(house.stored(kind) for kind in ("/pods", "/services", "/secrets")))


def test_what_was_left_while_nobody_led_is_cleaned_up_by_the_next_leader() -> None:
    live(left_story())


async def left_story() -> None:
    from tests.make import role, spec

    async with opened(nodes=2) as house:
        (job,) = await house.world.submit(spec(group="lab", user="ann", roles=[role(tasks=2, gpus=8)]))
        await house.world.until(lambda state: state.kept.jobs[job].state == JobState.RUNNING)
        house.double.faults.add(Fault(method="DELETE", path="services", times=1000, status=503))
        for pod in house.stored("/pods", "gangline-jobs"):
            house.kubelets.finish(pod, 0)
        await house.world.until(lambda state: state.kept.jobs[job].state == JobState.SUCCEEDED)
        await house.world.crash("kubernetes")
        house.double.faults.waiting.clear()
        assert house.stored("/services")
        house.world.restart("kubernetes")
        await house.until(lambda: not house.stored("/services"))
