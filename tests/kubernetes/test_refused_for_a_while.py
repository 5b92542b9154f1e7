"""Whatever kind of request the server refuses for a while, for no job's sake: every job runs, once, to its end."""

import pytest
from tests.kubernetes.house import House, Object, opened
from tests.kubernetes.test_adopted import make
from tests.kubernetes.test_devices import offer
from tests.kubernetes.test_owners import KIND, Operator, apply_owner, define
from tests.make import spec

from dollhouse.loop import live
from gangline_core.job import JobState
from kubedouble.faults import Fault
from kubedouble.kubelet import Life

RIGHTS = 'things is forbidden: User "us" cannot do resource "things" in API group "" at the cluster scope'
REFUSALS = {
    429: ("TooManyRequests", "too many requests, please try again later"),
    500: ("InternalError", "etcdserver: request timed out"),
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", RIGHTS),
}
REQUESTS = [
    ("POST", r"/pods(\?|$)"),
    ("POST", "/binding"),
    ("PATCH", "/pods/"),
    ("DELETE", "/pods/"),
    ("GET", "/pods"),
    ("PATCH", "/status"),
    ("PATCH", "batch/v1"),
    ("POST", "/services"),
    ("POST", "/events"),
    ("", "resource.k8s.io"),
    ("", "/jobs"),
    ("", "/nodes"),
    ("", "/namespaces"),
]


@pytest.mark.parametrize("mode", ["count", "dra"])
@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=[f"{method} {path}".strip() for method, path in REQUESTS])
def test_requests_that_are_refused_for_no_jobs_sake_fail_none(mode: str, method: str, path: str) -> None:
    live(refused_story(mode, method, path))


def life(pod: Object) -> Life:
    return Life(start_s=0.5, run_s=15.0)


async def refused_story(mode: str, method: str, path: str) -> None:
    async with opened(nodes=2, gpus=4, life=life, mode=mode) as house:
        await asked_for(house, mode)
        for number in range(40):
            cut = Fault(method=method, path=path, is_cut=True)
            refused = [
                Fault(method=method, path=path, status=status, reason=reason, message=message)
                for status, (reason, message) in REFUSALS.items()
            ]
            house.double.faults.add([*refused, cut][number // 8])
        jobs = house.world.state.kept.jobs
        wanted = 4 if mode == "count" else 2
        await house.until(
            lambda: len(jobs) == wanted and all(job.state == JobState.SUCCEEDED for job in jobs.values()),
            within_s=400,
        )
        assert [(job.spec.name, job.attempt) for job in jobs.values() if job.attempt != 1] == []
        await house.until(lambda: not any(any(use.gpu_milli) for use in house.world.state.use.values()))
        await house.until(lambda: not [pod for pod in house.stored("/pods") if pod["metadata"].get("finalizers")], 300)


async def asked_for(house: House, mode: str) -> None:
    """One job of every way to ask for one."""
    if mode == "dra":
        for node in ("n0", "n1"):
            await offer(house, node, 4)
        await house.until(lambda: all(len(node.gpus) == 4 for node in house.world.state.kept.nodes.values()))
    await house.world.submit(spec(name="asked", gpus=1, group="lab", user="ann", retries=0))
    await house.apply("object", tasks=2, gpus=1, command=["sleep"], retries=0)
    if mode == "count":
        kind = KIND["Job"]
        await define(house, kind)
        Operator(house, kind)
        await make(house, "pod", gpus=1)
        await apply_owner(house, kind, "owner")
