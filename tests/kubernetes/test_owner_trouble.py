"""Owners whose objects and pods come, change and go as on a busy cluster: nothing is lost, nothing uncounted."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import JOBS, NAMESPACE, PODS, House, Object, opened
from tests.kubernetes.test_adopted import bound, make
from tests.kubernetes.test_owners import (
    KIND,
    QUEUED,
    Operator,
    apply_owner,
    define,
    owners_of,
    path,
    ray,
    spec_of,
    suspended,
    template,
)
from tests.kubernetes.test_places import MERGE_PATCH

from dollhouse.loop import live
from gangline_core.job import JobState
from kubedouble.faults import Fault
from kubedouble.scheduler import DefaultScheduler

JOB = KIND["Job"]
DEFAULT = "default-scheduler"


def living(house: House) -> list[Any]:
    """Jobs that have not ended."""
    return [job for job in house.world.state.kept.jobs.values() if job.outcome is None and job.state != "cancelled"]


def used(house: House) -> int:
    """GPU thousandths that the group has."""
    return house.world.state.usage.get("lab", {}).get("gpu_milli", 0)


async def owner(house: House, name: str, spec: Object, kind: str = "Job") -> str:
    """Somebody makes an owner with a queue's name on it; gives its uid."""
    made = await house.ask("POST", path(KIND[kind]), {"metadata": {"name": name, "labels": QUEUED}, "spec": spec})
    return str(made["metadata"]["uid"])


async def pod_below(house: House, name: str, uid: str, *, namespace: str = NAMESPACE, **more: Any) -> None:
    """A controller, or somebody who plays one, makes a pod below a Job called t."""
    above = {"apiVersion": "batch/v1", "kind": "Job", "name": "t", "uid": uid, "controller": True}
    where = PODS.replace(NAMESPACE, namespace)
    spec = template(**more)["spec"]
    await house.ask("POST", where, {"metadata": {"name": name, "ownerReferences": [above]}, "spec": spec})


# --- what is booked is what runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["gangline", DEFAULT])
def test_an_owner_that_asks_for_more_while_it_waits_is_counted_with_more(scheduler: str) -> None:
    live(edited_story(scheduler))


async def edited_story(scheduler: str) -> None:
    async with opened(nodes=1, gpus=4) as house:
        await make(house, "first", gpus=4)
        await house.until(lambda: bound(house) == {"first": "n0"})
        one = {"completionMode": "Indexed", "completions": 1, "parallelism": 1}
        await owner(house, "t", {"suspend": True, **one, "template": template(scheduler=scheduler)})
        await house.until(lambda: len(house.world.state.kept.jobs) == 2)
        more = {"spec": {"parallelism": 3, "completions": 3}}
        await house.ask("PATCH", f"{path(JOB)}/t", more, MERGE_PATCH)
        Operator(house, JOB)
        DefaultScheduler(house.double)
        house.kubelets.finish_named(NAMESPACE, "first")
        await house.until(
            lambda: len([pod for pod in house.stored("/pods") if pod["status"]["phase"] == "Running"]) == 3, 120
        )
        assert used(house) == 3000


def test_a_pod_that_needs_more_than_its_template_said_is_not_bound_until_that_is_booked() -> None:
    live(injected_story())


async def injected_story() -> None:
    async with opened(nodes=2, gpus=2) as house:
        uid = await owner(house, "t", {"suspend": True, "completions": 1, "parallelism": 1, "template": template()})
        await house.until(lambda: not suspended(house, JOB, "t"), 90)
        above = {"apiVersion": "batch/v1", "kind": "Job", "name": "t", "uid": uid, "controller": True}
        sidecar = {"name": "mesh", "image": "x:1", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}
        spec = template()["spec"]
        body = {"metadata": {"name": "t-0", "ownerReferences": [above]}, "spec": spec}
        body["spec"]["containers"] = [*spec["containers"], sidecar]
        await house.ask("POST", PODS, body)
        await house.until(lambda: bound(house).get("t-0", "") != "", 400)
        (job,) = [one for one in house.world.state.kept.jobs.values() if one.state == JobState.RUNNING]
        assert job.spec.roles[0].resources.cpu_milli == 3000
        assert job.spec.roles[0].resources.memory_mib == 1024


def test_pods_beyond_the_tasks_of_a_job_are_jobs_of_their_own() -> None:
    live(completions_story())


async def completions_story() -> None:
    async with opened(nodes=2, gpus=2) as house:
        uid = await owner(house, "t", {"suspend": True, "completions": 4, "parallelism": 2, "template": template()})
        await house.until(lambda: not suspended(house, JOB, "t"), 60)
        for number in range(2):
            await pod_below(house, f"t-{number}", uid)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        for number in range(2):
            house.kubelets.finish_named(NAMESPACE, f"t-{number}")
            await asyncio.sleep(0.3)
            await pod_below(house, f"t-{number + 2}", uid)
        await house.until(lambda: bound(house).keys() >= {"t-2", "t-3"}, 60)
        await house.until(lambda: used(house) == 2000)
        for number in (2, 3):
            house.kubelets.finish_named(NAMESPACE, f"t-{number}")
        await house.until(lambda: used(house) == 0)


def test_pods_that_others_bind_after_a_failure_are_counted_as_they_come() -> None:
    live(failed_story())


async def failed_story() -> None:
    async with opened(nodes=2, gpus=2) as house:
        indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
        shape = template(scheduler=DEFAULT, gpus=2)
        await owner(house, "t", {"suspend": True, **indexed, "template": shape})
        operator = Operator(house, JOB)
        DefaultScheduler(house.double)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        (name, *_) = sorted(pod["metadata"]["name"] for pod in house.stored("/pods"))
        house.kubelets.finish_named(NAMESPACE, name, 1)
        await house.until(lambda: house.job(1).state == JobState.FAILED)
        await house.until(lambda: set(bound(house)) == {name}, 60, "the gang is undone whole")
        await house.ask("DELETE", f"{PODS}/{name}")
        operator.reconcile("t")
        await house.until(lambda: len(bound(house)) == 2, 60, "its controller makes others")
        await house.until(lambda: used(house) == 4000)


def test_of_a_job_that_was_stopped_half_way_only_the_rest_starts_again() -> None:
    live(half_story())


async def half_story() -> None:
    async with opened(nodes=1, gpus=3) as house:
        operator = Operator(house, JOB)
        await apply_owner(house, JOB, "train")
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        first = next(
            p
            for p in house.stored("/pods")
            if p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "1"
        )
        house.kubelets.finish_named(NAMESPACE, first["metadata"]["name"])
        done = {"status": {"succeeded": 1, "completedIndexes": "1"}}
        await house.ask("PATCH", f"{path(JOB)}/train/status", done, MERGE_PATCH)
        await house.apply("urgent", tasks=1, gpus=3, priority=100, command=["x"])
        await house.phase("urgent", "Running", 120)
        await house.until(lambda: any(len(job.spec.roles) and job.spec.roles[0].count == 2 for job in living(house)))
        (urgent,) = await house.pods(**{"gangline.dev/job": "2"})
        house.kubelets.finish(urgent, 0)
        await house.until(
            lambda: house.world.state.kept.jobs[max(house.world.state.kept.jobs)].state == JobState.RUNNING, 120
        )
        await asyncio.sleep(150)
        assert used(house) == 2000
        assert operator.made == 5
        assert not suspended(house, JOB, "train")


# --- who comes first, and who was away --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Job", "RayCluster"])
def test_a_new_leader_finds_the_pods_of_an_owner_that_was_just_let_go(name: str) -> None:
    live(failover_story(name))


async def failover_story(name: str) -> None:
    kind = KIND[name]
    async with opened(nodes=2, gpus=3) as house:
        await define(house, kind)
        await apply_owner(house, kind, "train")
        await house.until(lambda: not suspended(house, kind, "train"), 90)
        await house.world.crash("kubernetes")
        Operator(house, kind).reconcile("train")
        await asyncio.sleep(1)
        house.world.restart("kubernetes")
        await house.until(lambda: house.job(1).state == JobState.RUNNING, 30)
        assert len(bound(house)) == 3
        assert not suspended(house, kind, "train")


def test_pods_that_are_heard_of_before_their_owner_are_its_pods_all_the_same() -> None:
    live(early_story())


async def early_story() -> None:
    outer, inner = KIND["RayJob"], KIND["RayCluster"]
    async with opened(nodes=1, gpus=3) as house:
        await define(house, outer)
        await define(house, inner)
        await asyncio.sleep(65)
        uid = await owner(house, "train", spec_of("RayJob"), "RayJob")
        await house.until(lambda: not suspended(house, outer, "train"), 90)
        cluster = "11111111-2222-3333-4444-555555555555"
        above = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "train-c", "uid": cluster, "controller": True}
        for number, group in enumerate(("headgroup", "gpu", "gpu")):
            meta = {"name": f"train-{number}", "labels": {"ray.io/group": group}, "ownerReferences": [above]}
            await house.ask("POST", PODS, {"metadata": meta, "spec": template()["spec"]})
        await asyncio.sleep(5)
        root = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "uid": uid, "controller": True}
        meta = {"name": "train-c", "namespace": NAMESPACE, "uid": cluster, "generation": 1, "ownerReferences": [root]}
        body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta, "spec": ray()}
        house.double.store.put("ray.io/rayclusters", body, None)
        await house.until(lambda: house.job(1).state == JobState.RUNNING, 30)
        assert len(bound(house)) == 3


def test_an_owner_that_makes_no_pod_in_time_is_suspended_and_queues_again() -> None:
    live(late_story())


async def late_story() -> None:
    async with opened(nodes=1, gpus=3) as house:
        await apply_owner(house, JOB, "train")
        await house.until(lambda: not suspended(house, JOB, "train"), 60)
        await house.until(lambda: suspended(house, JOB, "train"), 180)
        assert not any(job.state == JobState.FAILED for job in house.world.state.kept.jobs.values())
        assert all(not node.problem for node in house.world.state.kept.nodes.values()), "the node is not to blame"
        Operator(house, JOB)
        await house.until(lambda: any(job.state == JobState.RUNNING for job in living(house)), 300)
        assert len(bound(house)) == 3


@pytest.mark.parametrize("code", [403, 404])
def test_a_kind_that_is_away_for_a_moment_ends_none_of_its_jobs(code: int) -> None:
    live(away_story(code))


async def away_story(code: int) -> None:
    kind = KIND["RayCluster"]
    async with opened(nodes=1, gpus=3, relist_s=30.0) as house:
        await define(house, kind)
        Operator(house, kind)
        await apply_owner(house, kind, "train")
        await house.until(lambda: house.job(1).state == JobState.RUNNING, 120)
        fault = Fault(method="GET", path="rayclusters", status=code, reason="NotFound", message="no", times=2)
        house.double.faults.add(fault)
        await house.until(lambda: not fault.times, 90)
        await asyncio.sleep(30)
        assert house.job(1).state == JobState.RUNNING
        assert len(bound(house)) == 3


def test_a_leader_that_cannot_see_a_kind_yet_ends_none_of_its_jobs() -> None:
    live(start_story())


async def start_story() -> None:
    kind = KIND["RayCluster"]
    async with opened(nodes=1, gpus=3) as house:
        await define(house, kind)
        Operator(house, kind)
        await apply_owner(house, kind, "train")
        await house.until(lambda: house.job(1).state == JobState.RUNNING, 120)
        await house.world.crash("kubernetes")
        house.double.faults.add(
            Fault(method="GET", path="rayclusters", status=404, reason="NotFound", message="no", times=1)
        )
        house.world.restart("kubernetes")
        await asyncio.sleep(90)
        assert house.job(1).state == JobState.RUNNING
        assert not suspended(house, kind, "train")


def test_a_pod_of_another_namespace_takes_nobodys_place() -> None:
    live(thief_story())


async def thief_story() -> None:
    async with opened(nodes=1, gpus=8) as house:
        notes = {"gangline.dev/group": "lab/none"}
        await house.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "thief", "annotations": notes}})
        uid = await owner(house, "t", {"suspend": True, "completions": 1, "parallelism": 1, "template": template()})
        await house.until(lambda: not suspended(house, JOB, "t"), 60)
        await pod_below(house, "a-thief", uid, namespace="thief", gpus=8)
        await asyncio.sleep(5)
        await pod_below(house, "t-x", uid)
        await house.until(lambda: bound(house) == {"t-x": "n0"})
        assert used(house) == 1000


def test_a_gang_one_of_whose_pods_went_while_nobody_looked_waits_for_another() -> None:
    live(gone_story())


async def gone_story() -> None:
    words: Any = {
        "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    async with opened(nodes=1, gpus=2) as house:
        await make(house, "first", gpus=2)
        await house.until(lambda: bound(house) == {"first": "n0"})
        for number in range(2):
            await make(house, f"g-{number}", **words)
        await house.until(lambda: len(house.world.state.kept.jobs) == 2)
        await house.world.crash("kubernetes")
        await house.ask("DELETE", f"{PODS}/g-1")
        await asyncio.sleep(1)
        house.world.restart("kubernetes")
        await house.until(lambda: house.job(2).state == JobState.CANCELLED)
        house.kubelets.finish_named(NAMESPACE, "first")
        await asyncio.sleep(60)
        assert "g-0" not in bound(house), "half a gang is none"
        await make(house, "g-2", **words)
        await house.until(lambda: bound(house).keys() >= {"g-0", "g-2"})


# --- words about pods -------------------------------------------------------------------------------------------


def test_a_pod_that_makes_way_says_so_before_it_goes() -> None:
    live(disrupted_story())


async def disrupted_story() -> None:
    seen: list[tuple[str, bool]] = []
    async with opened(nodes=1, gpus=1) as house:
        await make(house, "low")
        await house.until(lambda: bound(house) == {"low": "n0"})

        def look(change: Any) -> None:
            if change.storage == "/pods" and change.after["metadata"]["name"] == "low":
                kinds = {one["type"]: one for one in change.after["status"].get("conditions", [])}
                if "DisruptionTarget" in kinds:
                    seen.append((kinds["DisruptionTarget"]["reason"], "deletionTimestamp" in change.after["metadata"]))

        house.double.store.listeners.append(look)
        await house.apply("urgent", tasks=1, gpus=1, priority=100, command=["x"])
        await house.phase("urgent", "Running", 120)
        assert seen[0] == ("PreemptionByScheduler", False)


def test_a_task_whose_marks_somebody_takes_off_is_followed_to_its_end() -> None:
    live(unmarked_story())


async def unmarked_story() -> None:
    async with opened(nodes=1, gpus=1) as house:
        await house.apply("train", tasks=1, gpus=1, command=["x"])
        await house.phase("train", "Running")
        (pod,) = await house.pods()
        bare = {"metadata": {"annotations": {"gangline.dev/task": None, "gangline.dev/placed-ms": None}}}
        await house.ask("PATCH", f"{PODS}/{pod['metadata']['name']}", bare, MERGE_PATCH)
        await asyncio.sleep(2)
        house.kubelets.finish_named(NAMESPACE, pod["metadata"]["name"])
        await house.phase("train", "Succeeded")
        assert used(house) == 0


@pytest.mark.parametrize("keeps", [True, False])
def test_of_a_training_job_that_was_stopped_half_way_only_what_its_operator_makes_again_is_waited_for(
    keeps: bool,
) -> None:
    live(half_trained_story(keeps))


async def half_trained_story(keeps: bool) -> None:
    """Kubeflow's own operator takes all pods away when a job is suspended, mpi-operator keeps those that are done."""
    kind = KIND["PyTorchJob"]
    async with opened(nodes=1, gpus=3) as house:
        await define(house, kind)
        operator = KubeflowOperator(house, keeps)
        await apply_owner(house, kind, "train")
        await house.until(lambda: bool(house.world.state.kept.jobs) and house.job(1).state == JobState.RUNNING, 90)
        for name in ("train-master-0", "train-worker-1"):
            house.kubelets.finish_named(NAMESPACE, name)
        await house.apply("urgent", tasks=1, gpus=3, priority=100, command=["x"])
        await house.phase("urgent", "Running", 120)
        await house.ask("DELETE", f"{JOBS}/urgent")
        wanted = {"train-worker-0"} if keeps else {"train-master-0", "train-worker-0", "train-worker-1"}

        def runs() -> bool:
            pods = [pod for pod in house.stored("/pods") if pod["status"].get("phase") == "Running"]
            return {pod["metadata"]["name"] for pod in pods} == wanted

        await house.until(runs, 120)
        await house.until(lambda: used(house) == 1000 * len(wanted))
        for name in wanted:
            house.kubelets.finish_named(NAMESPACE, name)
        await house.until(lambda: used(house) == 0)
        await asyncio.sleep(200)
        assert all(job.outcome != "failed" for job in house.world.state.kept.jobs.values())
        assert operator.made == 3 + len(wanted)


class KubeflowOperator:
    """Makes each replica for which there is no pod, by its own names; takes pods away while it is suspended."""

    def __init__(self, house: House, keeps: bool) -> None:
        self.house, self.keeps, self.made = house, keeps, 0
        house.double.store.listeners.append(self.hear)

    def hear(self, change: Any) -> None:
        """Something changed."""
        if change.storage == "kubeflow.org/pytorchjobs":
            asyncio.get_running_loop().call_later(0.2, self.reconcile)

    def reconcile(self) -> None:
        """Bring the pods into being, or end them."""
        pods = self.house.double.kinds.find("", "v1", "pods")
        assert pods is not None
        for found in self.house.stored("kubeflow.org/pytorchjobs"):
            spec, uid = found["spec"], found["metadata"]["uid"]
            here = {pod["metadata"]["name"]: pod for pod in self.house.stored("/pods") if uid in owners_of(pod)}
            if spec["runPolicy"].get("suspend"):
                for name, pod in here.items():
                    if not (self.keeps and pod["status"]["phase"] == "Succeeded"):
                        self.house.double.verbs.delete(pods, NAMESPACE, name)
                continue
            for part, replica in spec["pytorchReplicaSpecs"].items():
                for index in range(replica["replicas"]):
                    name = f"train-{part.lower()}-{index}"
                    if name not in here:
                        self._make(pods, found, name, part.lower(), str(index), replica["template"]["spec"])

    def _make(self, pods: Any, found: Object, name: str, part: str, index: str, spec: Object) -> None:
        self.made += 1
        word = "training.kubeflow.org/replica"
        above = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "controller": True}
        meta = {
            "name": name,
            "labels": {f"{word}-type": part, f"{word}-index": index},
            "ownerReferences": [{**above, "uid": found["metadata"]["uid"]}],
        }
        self.house.double.verbs.create(pods, NAMESPACE, {"metadata": meta, "spec": spec})
