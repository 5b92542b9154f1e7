"""What goes wrong between the log and a cluster, and that nothing runs twice, leaks, or waits for ever."""

import asyncio
import json

from tests.kubernetes.house import JOBS, NAMESPACE, PODS, Object, condition, opened

from dollhouse.loop import live
from gangline_core.ids import TaskId
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_kubernetes.names import pod_name
from kubedouble.faults import Fault
from kubedouble.kubelet import Life


def test_a_start_whose_request_was_lost_is_done_once() -> None:
    """P05 a: cut before anything was done."""
    live(lost_start_story(Fault(method="POST", path="/pods", is_cut=True)))


def test_a_start_whose_answer_was_lost_is_done_once() -> None:
    """P05 b: done, and the answer cut."""
    live(lost_start_story(Fault(method="POST", path="/pods", is_cut_after=True)))


async def lost_start_story(fault: Fault) -> None:
    async with opened(nodes=2) as house:
        house.double.faults.add(fault)
        await house.apply("train", gpus=8, command=["sleep"])
        await house.phase("train", "Running")
        assert len(house.stored("/pods")) == 1
        assert house.job(1).attempt == 1
        taken = [sum(use.gpu_milli) for use in house.world.state.use.values()]
        assert sorted(taken) == [0, 8000]


def test_a_gang_of_which_one_place_is_refused_is_undone_whole_and_starts_anew() -> None:
    live(refused_story())


async def refused_story() -> None:
    refused = {"n1": 1}

    def life(pod: Object) -> Life:
        node = pod["spec"]["nodeName"]
        if refused.get(node, 0) > 0:
            refused[node] -= 1
            return Life(refused="OutOfcpu")
        return Life(start_s=1.0)

    async with opened(nodes=3, life=life) as house:
        await house.apply("gang", tasks=2, gpus=8, command=["sleep"])
        await house.until(lambda: bool(house.world.state.kept.jobs))
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING)
        nodes = {task.node for task in house.world.state.kept.tasks.values()}
        assert "n1" not in nodes, "a node that refused rests"
        await house.until(lambda: len([p for p in house.stored("/pods") if p["status"]["phase"] == "Running"]) == 2)
        problem = house.world.state.kept.nodes["n1"].problem
        assert "OutOfcpu" in problem
        await house.until(lambda: not house.world.state.kept.nodes["n1"].problem, within_s=60)


def test_what_the_cluster_refuses_for_the_job_itself_fails_it_with_the_servers_words() -> None:
    live(forbidden_story())


async def forbidden_story() -> None:
    async with opened(nodes=1) as house:
        house.double.faults.add(
            Fault(method="POST", path="/pods", status=403, reason="Forbidden", message="exceeded quota: compute")
        )
        await house.apply("train", gpus=1, command=["sleep"])
        found = await house.phase("train", "Failed")
        assert found["status"]["reason"] == ReasonCode.START_FAILED
        assert "exceeded quota: compute" in found["status"]["message"]


def test_an_api_server_that_is_away_loses_nothing_and_nothing_is_declared_lost() -> None:
    live(away_story())


async def away_story() -> None:
    async with opened(nodes=2) as house:
        await house.apply("one", gpus=8, command=["sleep"])
        await house.phase("one", "Running")
        house.double.faults.away = True
        house.double.store.hang_up()
        await asyncio.sleep(300)
        assert not any(node.lost for node in house.world.state.kept.nodes.values())
        assert house.job(1).state == JobState.RUNNING
        (pod,) = house.stored("/pods")
        house.kubelets.finish(pod, 0)
        house.double.faults.away = False
        await house.phase("one", "Succeeded", within_s=60)


def test_too_many_requests_are_waited_out() -> None:
    live(throttled_story())


async def throttled_story() -> None:
    async with opened(nodes=1) as house:
        house.double.faults.add(Fault(path="/pods|/status|watch", times=8, status=429, reason="TooManyRequests"))
        await house.apply("train", gpus=1, command=["sleep"])
        await house.phase("train", "Running", within_s=120)


def test_a_new_leader_finds_every_pod_again_and_starts_none_twice() -> None:
    live(restart_story())


async def restart_story() -> None:
    async with opened(nodes=2) as house:
        await house.apply("a", gpus=8, command=["sleep"])
        await house.apply("b", gpus=8, command=["sleep"])
        await house.phase("a", "Running")
        await house.phase("b", "Running")
        await house.world.crash("kubernetes")
        pods = {pod["metadata"]["name"]: pod for pod in await house.pods()}
        ended = next(pod for name, pod in pods.items() if name.startswith("a-"))
        house.kubelets.finish(ended, 0)
        await asyncio.sleep(120)
        assert not any(node.lost for node in house.world.state.kept.nodes.values())
        house.world.restart("kubernetes")
        await house.phase("a", "Succeeded")
        assert house.job(2).state == JobState.RUNNING
        assert house.job(2).attempt == 1
        assert {pod["metadata"]["uid"] for pod in await house.pods()} == {p["metadata"]["uid"] for p in pods.values()}


def test_a_pod_that_somebody_deleted_sends_its_job_back_to_the_queue() -> None:
    live(deleted_pod_story())


async def deleted_pod_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", gpus=1, command=["sleep"], retries=0)
        await house.phase("train", "Running")
        (pod,) = await house.pods()
        await house.ask("DELETE", f"{PODS}/{pod['metadata']['name']}")
        await house.until(lambda: house.job(1).attempt == 2 and house.job(1).state == JobState.RUNNING)
        assert house.job(1).retries_used == 0


def test_a_pod_without_its_task_in_the_log_is_deleted() -> None:
    live(orphan_story())


async def orphan_story() -> None:
    async with opened(nodes=1) as house:
        notes = {
            "gangline.dev/task": "99-1-worker-0",
            "gangline.dev/placed-ms": "5",
            "gangline.dev/cluster": "kubernetes",
        }
        labels = {"app.kubernetes.io/managed-by": "gangline", "gangline.dev/job": "99"}
        meta = {"labels": labels, "annotations": notes, "finalizers": ["gangline.dev/seen"]}
        body = {
            "metadata": {"name": pod_name("ghost", TaskId("99-1-worker-0")), **meta},
            "spec": {"nodeName": "n0", "containers": [{"name": "main", "image": "x:1"}]},
        }
        await house.ask("POST", PODS, body)
        await house.until(lambda: not house.stored("/pods"))


def test_an_image_that_cannot_be_had_fails_the_job_and_says_so() -> None:
    live(stuck_story())


async def stuck_story() -> None:
    async with opened(nodes=1, life=lambda pod: Life(start_s=10_000), stuck_s=60.0) as house:
        await house.apply("train", gpus=1, image="nowhere:1", command=["sleep"])
        await house.until(lambda: len(house.stored("/pods")) == 1)
        (pod,) = house.stored("/pods")
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "nowhere:1 not found"}}
        state = {"name": "main", "state": waiting}
        house.double.store.put("/pods", {**pod, "status": {**pod["status"], "containerStatuses": [state]}}, pod)
        found = await house.phase("train", "Failed", within_s=120)
        assert "nowhere:1 not found" in found["status"]["message"]


def test_a_victim_that_is_still_being_started_is_evicted_once_and_makes_way_in_seconds() -> None:
    """E14."""
    live(starting_victim_story())


async def starting_victim_story() -> None:
    def life(pod: Object) -> Life:
        return Life(start_s=60.0 if pod["metadata"]["name"].startswith("low") else 0.0)

    async with opened(nodes=1, gpus=1, life=life) as house:
        await house.apply("low", gpus=1, level="low", command=["sleep"])
        await house.phase("low", "Placed")
        await asyncio.sleep(5)
        await house.apply("high", gpus=1, level="high", command=["sleep"])
        await house.phase("high", "Running", within_s=10)
        assert house.job(1).preemptions == 1


def test_names_are_unique_valid_and_recognised() -> None:
    """M05: long names that differ in their last letter, letters that no pod's name can show, an image with a port."""
    live(names_story())


async def names_story() -> None:
    from tests.make import role, spec

    long = "x" * 79
    async with opened(nodes=1) as house:
        names = (f"{long}a", f"{long}b", "训练", "A", "a", "-..-")
        jobs = [
            (await house.world.submit(spec(group="lab", user="ann", name=name, roles=[role(gpus=1)])))[0]
            for name in names
        ]
        await house.world.until(lambda state: all(state.kept.jobs[job].state == JobState.RUNNING for job in jobs))
        made = [pod["metadata"]["name"] for pod in house.stored("/pods")]
        assert len(set(made)) == len(names)
        assert all(len(name) <= 63 and name[-1].isalnum() and name[0].isalnum() for name in made)
        await house.apply("ported", gpus=1, image="host:5000/x:1", command=["sleep"])
        await house.phase("ported", "Running")


def test_a_job_that_is_wrong_is_refused_in_its_status_and_runs_nothing() -> None:
    live(wrong_story())


async def wrong_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("wrong", gpus="many", command=["sleep"])
        found = await house.phase("wrong", "Refused")
        assert condition(found, "Admitted")["status"] == "False"
        assert "gpus" in found["status"]["message"]
        await house.apply("foreign", gpus=1, group="other", command=["sleep"])
        found = await house.phase("foreign", "Refused")
        assert found["status"]["reason"] == "Forbidden"
        await house.apply("huge", gpus=9, command=["sleep"])
        found = await house.phase("huge", "Refused")
        assert found["status"]["reason"] == "NeverFitsNode"
        assert not house.stored("/pods")


def test_holding_and_releasing_the_object_holds_and_releases_the_job() -> None:
    live(hold_story())


async def hold_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", gpus=1, hold=True, command=["sleep"])
        await house.phase("train", "Held")
        patch = "application/merge-patch+json"
        await house.ask("PATCH", f"{JOBS}/train", {"spec": {"hold": False}}, patch)
        await house.phase("train", "Running")
        await house.ask("PATCH", f"{JOBS}/train", {"spec": {"hold": True}}, patch)
        await house.phase("train", "Suspended")


def test_a_change_that_has_no_effect_is_told() -> None:
    live(changed_story())


async def changed_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", gpus=1, command=["sleep"], env={"API_TOKEN": "s3cr3t-value"})
        await house.phase("train", "Running")
        patch = "application/merge-patch+json"
        await house.ask("PATCH", f"{JOBS}/train", {"spec": {"gpus": 2}}, patch)
        await house.until(lambda: "ChangeIgnored" in {one["reason"] for one in house.stored("/events")})
        await house.until(lambda: house.status("train")["observedGeneration"] == 2)
        assert house.status("train")["gpus"] == 1


def test_a_cluster_without_our_definitions_is_named_and_served_once_it_has_them() -> None:
    live(undefined_story())


async def undefined_story() -> None:
    async with opened(nodes=1) as house:
        kept = [kind for kind in house.double.kinds if kind.group == "gangline.dev"]
        house.double.kinds.drop("gangline.dev", "jobs")
        await house.world.crash("kubernetes")
        house.world.restart("kubernetes")
        await asyncio.sleep(30)
        assert "jobs" in house.world.processes["kubernetes"].site.not_ready["cluster"]
        for kind in kept:
            house.double.kinds.add(kind)
        await house.apply("train", gpus=1, command=["sleep"])
        await house.phase("train", "Running")
        assert not house.world.processes["kubernetes"].site.not_ready


def test_sealed_values_reach_the_pod_by_a_secret_and_stand_nowhere_else() -> None:
    live(secret_story())


async def secret_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply(
            "train", gpus=1, env={"API_TOKEN": "s3cr3t-value"}, command=["train", "--password", "hunter-two"]
        )
        await house.phase("train", "Running")
        (pod,) = await house.pods()
        assert "s3cr3t-value" not in json.dumps(pod)
        assert "hunter-two" not in json.dumps(pod)
        (secret,) = house.stored("/secrets", NAMESPACE)
        assert set(secret["stringData"].values()) == {"s3cr3t-value", "hunter-two"}


def test_a_namespace_whose_service_account_is_still_being_made_fails_no_job() -> None:
    live(account_story())


async def account_story() -> None:
    async with opened(nodes=1) as house:
        house.double.verbs.wants_accounts = True
        await house.apply("train", gpus=1, command=["x"])
        await asyncio.sleep(5)
        assert house.job(1).state == JobState.STARTING
        await house.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        await house.phase("train", "Running")
        assert house.job(1).attempt == 1
