"""What a namespace does not let in: users are told in the server's words, nothing is tried for ever, nothing stays."""

import asyncio
from typing import Any

import msgspec
from tests.kubernetes.house import JOBS, NAMESPACE, PODS, House, Object, opened
from tests.kubernetes.test_adopted import bound, make
from tests.kubernetes.test_owners import KIND, Operator, apply_owner, suspended

from dollhouse.loop import live
from gangline_core.ids import NodeId
from gangline_core.job import JobState

TEAM = f"/api/v1/namespaces/{NAMESPACE}"


async def restrict(house: House) -> None:
    """The namespace enforces the level restricted."""
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await house.ask("PATCH", TEAM, labels, "application/merge-patch+json")
    await asyncio.sleep(1)


async def quota(house: House, **hard: str) -> None:
    """An administrator lets so much be in the namespace."""
    named = {name.replace("__", "/").replace("_", "."): value for name, value in hard.items()}
    await house.ask("POST", f"{TEAM}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": named}})


def creations(house: House) -> int:
    """How often somebody asked for a pod in the team's namespace."""
    return sum(one == ("POST", PODS) for one in house.double.requests)


def used(house: House) -> int:
    """GPU thousandths that the group has."""
    return int(house.world.state.usage.get("lab", {}).get("gpu_milli", 0))


def test_jobs_run_in_a_namespace_that_lets_only_restricted_pods_in() -> None:
    live(restricted_story())


async def restricted_story() -> None:
    async with opened(nodes=1) as house:
        await restrict(house)
        await house.apply("train", tasks=2, gpus=1, command=["x"])
        await house.phase("train", "Running")
        for pod in await house.pods():
            assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


def test_elsewhere_images_run_as_whom_they_say() -> None:
    live(free_story())


async def free_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", gpus=1, command=["x"])
        await house.phase("train", "Running")
        (pod,) = await house.pods()
        assert "securityContext" not in pod["spec"]
        assert "securityContext" not in pod["spec"]["containers"][0]


def test_a_gang_that_a_quota_lets_in_half_is_undone_told_and_not_tried_for_ever() -> None:
    live(quota_story())


async def quota_story() -> None:
    async with opened(nodes=1) as house:
        await quota(house, **{"requests_nvidia.com__gpu": "2"})
        await house.apply("train", tasks=4, gpus=1, command=["x"], retries=2)
        found = await house.phase("train", "Failed", 600)
        assert "exceeded quota: q, requested: requests.nvidia.com/gpu=1" in found["status"]["message"]
        assert found["status"]["attempt"] == 1, "another try would be told the same"
        asked = creations(house)
        await asyncio.sleep(300)
        assert creations(house) == asked <= 4
        assert used(house) == 0
        assert not [pod for pod in house.stored("/pods") if pod["status"]["phase"] in ("Pending", "Running")]


def test_an_owner_whose_pods_a_quota_keeps_out_is_suspended_again_and_tried_ever_more_seldom() -> None:
    live(owner_story())


async def owner_story() -> None:
    kind = KIND["Job"]
    async with opened(nodes=1) as house:
        await quota(house, pods="2")
        operator = Refused(house)
        await apply_owner(house, kind, "train")
        await house.until(lambda: operator.refused > 0)
        await house.until(lambda: suspended(house, kind, "train"), 300)
        await asyncio.sleep(900)
        assert len(house.world.state.kept.jobs) <= 5, "as pauses grow"
        assert all(job.state != JobState.FAILED for job in house.world.state.kept.jobs.values())
        await house.ask("DELETE", f"{TEAM}/resourcequotas/q")
        await house.until(lambda: len(bound(house)) == 3, 600)


class Refused(Operator):
    """A controller whose pods the server may refuse; it does not try again by itself."""

    def __init__(self, house: House) -> None:
        super().__init__(house, KIND["Job"])
        self.refused = 0

    def reconcile(self, name: str) -> None:
        """As much as is let in."""
        from kubedouble.errors import ApiError

        try:
            super().reconcile(name)
        except ApiError:
            self.refused += 1


def test_what_a_limit_range_gives_to_pods_is_no_room_for_others() -> None:
    live(range_story())


async def range_story() -> None:
    async with opened(nodes=1) as house:
        limits = [{"type": "Container", "default": {"cpu": "90"}, "defaultRequest": {"cpu": "90"}}]
        await house.ask("POST", f"{TEAM}/limitranges", {"metadata": {"name": "r"}, "spec": {"limits": limits}})
        await house.apply("train", gpus=1, command=["x"])
        await house.phase("train", "Running")
        node = NodeId("n0")
        await house.until(lambda: house.world.state.kept.nodes[node].cpu_milli == 6_000)
        await house.apply("more", gpus=1, cpus=10, command=["x"])
        await asyncio.sleep(20)
        assert house.job(2).state == JobState.WAITING, "the kubelet would turn it away"
        (pod,) = await house.pods()
        house.kubelets.finish(pod, 0)
        await house.phase("more", "Running")


def test_what_a_limit_range_forbids_fails_with_its_words() -> None:
    live(forbidden_story())


async def forbidden_story() -> None:
    async with opened(nodes=1) as house:
        limits = [{"type": "Container", "max": {"memory": "1Gi"}}]
        await house.ask("POST", f"{TEAM}/limitranges", {"metadata": {"name": "r"}, "spec": {"limits": limits}})
        await house.apply("train", gpus=1, memory="8Gi", command=["x"])
        found = await house.phase("train", "Failed")
        assert "maximum memory usage per Container is 1Gi, but limit is 8192Mi" in found["status"]["message"]
        assert used(house) == 0


def test_a_namespace_that_is_deleted_ends_its_jobs_and_goes() -> None:
    live(ended_story())


async def ended_story() -> None:
    async with opened(nodes=1) as house:
        await house.apply("train", tasks=2, gpus=2, command=["x"], secrets={"A_TOKEN": "x"})
        await house.apply("waits", gpus=8, command=["x"])
        await make(house, "theirs")
        await house.phase("train", "Running")
        await house.until(lambda: "theirs" in bound(house))
        await house.ask("DELETE", TEAM)
        await house.until(lambda: house.double.store.get("/namespaces", "", NAMESPACE) is None, 120)
        await house.until(lambda: used(house) == 0)
        states = {job.state for job in house.world.state.kept.jobs.values()}
        assert states <= {JobState.CANCELLED, JobState.FAILED, JobState.LOST}


async def ask(house: House, path: str, body: Any) -> tuple[int, str]:
    """Code and message of a request that may be refused."""
    form = {"Content-Type": "application/json"}
    answer = await house.double.handle("POST", path, "", msgspec.json.encode(body), form)
    return answer.status, str(msgspec.json.decode(answer.body).get("message", ""))


def test_the_double_lets_nothing_into_a_namespace_that_ends_and_no_half_cards_at_all() -> None:
    live(double_story())


async def double_story() -> None:
    async with opened(nodes=1) as house:
        half: Object = {"name": "c", "image": "x:1", "resources": {"limits": {"nvidia.com/gpu": "0.5"}}}
        code, message = await ask(house, PODS, {"metadata": {"name": "p"}, "spec": {"containers": [half]}})
        assert (code, "must be an integer" in message) == (422, True)
        await house.ask("POST", f"{TEAM}/configmaps", {"metadata": {"name": "kept", "finalizers": ["x.y/z"]}})
        await house.ask("DELETE", TEAM)
        body = {"apiVersion": "gangline.dev/v1alpha1", "kind": "Job", "metadata": {"name": "t"}, "spec": {"gpus": 1}}
        code, message = await ask(house, JOBS, body)
        assert (code, "because it is being terminated" in message) == (403, True)
