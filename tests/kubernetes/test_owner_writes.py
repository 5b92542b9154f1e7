"""What we change of objects of others never undoes what somebody else changed meanwhile."""

import asyncio
from typing import Any

import pytest
from tests.kubernetes.house import House, Object, opened
from tests.kubernetes.test_adopted import bound
from tests.kubernetes.test_owners import KIND, Operator, define, path, spec_of

from dollhouse.loop import live
from gangline_core.job import JobState
from kubedouble.scheduler import DefaultScheduler

STALE = "application/merge-patch+json"


class Meddler:
    """Somebody who changes a list of the object just before a patch of ours reaches it."""

    def __init__(self, house: House, place: str, times: int) -> None:
        """So many times."""
        self.house, self.place, self.times = house, place, times
        self.handle = house.double.handle
        house.double.handle = self.meddle  # type: ignore[method-assign]  # a stand-in for another client
        self.refused = 0

    async def meddle(self, method: str, path: str, query: str = "", body: bytes = b"", headers: Any = None) -> Any:
        """Change it first, then let the request through."""
        if method == "PATCH" and path == self.place and self.times > 0:
            self.times -= 1
            kept = self.house.double.store.get("jobset.x-k8s.io/jobsets", "team", "theirs")
            assert kept is not None
            jobs = [{**one, "note": f"theirs-{self.times}"} for one in kept["spec"]["replicatedJobs"]]
            self.house.double.store.put(
                "jobset.x-k8s.io/jobsets", {**kept, "spec": {**kept["spec"], "replicatedJobs": jobs}}, kept
            )
        answer = await self.handle(method, path, query, body, headers)
        self.refused += answer.status == 409
        return answer


@pytest.mark.parametrize("times", [1, 3])
def test_a_list_that_somebody_changed_while_we_wrote_keeps_their_change(times: int) -> None:
    live(meddled_story(times))


async def meddled_story(times: int) -> None:
    kind = KIND["JobSet"]
    async with opened(nodes=1) as house:
        await define(house, kind)
        Operator(house, kind)
        DefaultScheduler(house.double)
        meddler = Meddler(house, f"{path(kind)}/theirs", times)
        # Pods of another scheduler are made with our gate, which is written into a list.
        meta = {"name": "theirs", "labels": {"kueue.x-k8s.io/queue-name": "lab"}}
        body: Object = {"metadata": meta, "spec": spec_of("JobSet", scheduler="default-scheduler")}
        await house.ask("POST", path(kind), body)
        await house.until(lambda: len(bound(house)) == 3, within_s=180)
        await house.until(lambda: house.job(1).state == JobState.RUNNING)
        kept = house.stored("jobset.x-k8s.io/jobsets")[0]["spec"]
        assert kept["suspend"] is False
        (inner,) = kept["replicatedJobs"]
        assert inner["note"] == "theirs-0", "their last change stands"
        assert "schedulingGates" in inner["template"]["spec"]["template"]["spec"], "and so does ours"
        assert meddler.refused == times
        await asyncio.sleep(1)
