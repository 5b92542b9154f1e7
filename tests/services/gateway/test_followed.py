"""Whom a job may follow: its sender's own, and those that it may see. Others' are answered as if there were none."""

import pytest
from tests.make import spec
from tests.services.gateway.conftest import Visitor

from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_core.spec import ArraySpec


@pytest.mark.parametrize("query", ["", "?dry_run=1"])
async def test_neither_others_jobs_nor_elements_of_their_arrays_can_be_followed(visitor: Visitor, query: str) -> None:
    array = spec(group="t2", user="tom", array=ArraySpec(ranges=((5, 8, 1),)))
    job = int(visitor.setting.world.submit(array))
    for named in (job, job + 1, f"{job}_5", f"{job}_7", f"afterany:{job}_8", f"{job}_99", 4711):
        document = {"command": ["true"], "after": [named]}
        problem = await visitor.ask("una", "POST", f"/v1/jobs{query}", status=422, json=document)
        shown = str(named).removeprefix("afterany:")
        assert problem["detail"] == f"There is no job {shown} to wait for.", "a wrong number reads the same"
    own = {"command": ["true"], "group": "t2", "user": "tom", "after": [f"{job}_7"]}
    status = 200 if query else 202
    await visitor.ask("tom", "POST", f"/v1/jobs{query}", status=status, json=own)
    await visitor.ask("head2", "POST", f"/v1/jobs{query}", status=status, json=own | {"name": "another"})


async def test_a_job_that_this_gateway_does_not_know_yet_is_nobodys_to_follow_unseen(visitor: Visitor) -> None:
    world = visitor.setting.world
    number = int(world.state.kept.next_job)
    toms = f.JobAdmitted(job=JobId(number), spec=spec(group="t2", user="tom", name="x"), submit_id="1", by="tom")
    visitor.setting.follower.coming.append((toms,))
    problem = await visitor.submit("una", after=[number], status=422)
    assert problem["detail"] == f"There is no job {number} to wait for."


async def test_ones_own_job_of_a_moment_ago_can_be_followed_at_any_gateway(visitor: Visitor) -> None:
    number = int(visitor.setting.world.state.kept.next_job)
    own = f.JobAdmitted(job=JobId(number), spec=spec(group="t1", user="una", name="x"), submit_id="1", by="una")
    visitor.setting.follower.coming.append((own,))
    assert (await visitor.submit("una", after=[number]))["id"] == number + 1
