"""What was sealed for a job goes when the job does, whoever leads the door by then."""

from pathlib import Path

import pytest

from dollhouse.asks import job_file
from dollhouse.loop import live
from dollhouse.people import People
from dollhouse.plan import FLEETS, Ask
from dollhouse.town import Town
from gangline_core.job import JobState
from gangline_wire.jobfile import parse_job
from gangline_wire.requests import Admitted, SubmitJobs
from gangline_wire.seal import seal
from gangline_wire.streams import SECRETS


async def story(folder: Path, *, dies: bool) -> None:
    town = Town(folder, seed=1)
    people = People(town)
    async with town:
        await town.begin(FLEETS, copies=1)
        await people.settle_in()
        spec, values = seal(parse_job({**job_file(Ask(run_s=3), []), "env": {"API_TOKEN": "s3cr3t-123456"}}))
        reply = await town.ask(SubmitJobs(jobs=(spec,), submit_id="x", by="ann", secrets=(values,)))
        assert isinstance(reply, Admitted)
        bucket = town.server.buckets[SECRETS.name]
        assert bucket.held()
        if dies:
            await town.clock.sleep(0.5)
            await town.crash("admission")
            await town.clock.sleep(30)
            town.restart("admission")
        await town.clock.sleep(40)
        assert town.state.kept.jobs[reply.jobs[0]].state == JobState.SUCCEEDED
        assert not bucket.held()


@pytest.mark.parametrize("dies", [False, True])
def test_sealed_values_are_gone_when_their_job_is_although_the_door_changed_hands(tmp_path: Path, dies: bool) -> None:
    live(story(tmp_path, dies=dies))
