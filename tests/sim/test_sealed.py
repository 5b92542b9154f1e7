"""What was sealed for a job goes when the job does, whoever leads the door by then."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from dollhouse.asks import job_file
from dollhouse.loop import live
from dollhouse.people import People
from dollhouse.plan import FLEETS, Ask
from dollhouse.town import Town
from gangline_admission.vault import SWEEP_S, Vault
from gangline_admission.verdict import Verdict
from gangline_core.door.sealed import vault_name
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_kit.carrying.sealed import sealed_values
from gangline_wire.jobfile import parse_job
from gangline_wire.requests import Admitted, SubmitJobs, Unavailable
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


def with_secret(value: str, name: str) -> SubmitJobs:
    spec, values = seal(parse_job({**job_file(Ask(run_s=3), []), "env": {"API_TOKEN": value}}))
    return SubmitJobs(jobs=(spec,), submit_id=name, by="ann", secrets=(values,))


async def without_room(folder: Path) -> None:
    town = Town(folder, seed=1)
    people = People(town)
    async with town:
        await town.begin(FLEETS, copies=1)
        await people.settle_in()
        bucket = town.server.buckets[SECRETS.name]
        bucket.change(replace(SECRETS, bytes_max=10))
        plain = parse_job(job_file(Ask(run_s=3), []))
        asked = [SubmitJobs(jobs=(plain,), submit_id=f"plain-{number}", by="ann") for number in range(4)]
        asked.insert(2, with_secret("s3cr3t-1", "secret"))
        replies = await asyncio.gather(*(town.ask(one) for one in asked))
        assert [type(reply) for reply in replies] == [Admitted, Admitted, Unavailable, Admitted, Admitted]
        assert [reply.jobs for reply in replies if isinstance(reply, Admitted)] == [(1,), (2,), (3,), (4,)]
        assert not bucket.names()
        bucket.change(SECRETS)
        again = await town.ask(asked[2])
        assert isinstance(again, Admitted)
        assert again.jobs == (5,)
        town.check()


def test_who_finds_no_room_for_secrets_is_told_so_alone_and_all_others_of_the_moment_are_let_in(tmp_path: Path) -> None:
    live(without_room(tmp_path))


async def overtaken(folder: Path) -> None:
    town = Town(folder, seed=1)
    people = People(town)
    async with town:
        await town.begin(FLEETS, copies=1)
        await people.settle_in()
        reply = await town.ask(with_secret("s3cr3t-new", "new"))
        assert isinstance(reply, Admitted)
        job, site = JobId(reply.jobs[0]), town.processes["admission"].site
        woken = Vault(site)
        woken.begin(site.follower.state.kept.epochs["admission"] - 1)
        await woken.keep(Verdict(reply=reply, secrets={job: {"worker.env.API_TOKEN": "s3cr3t-of-somebody-else"}}))
        bucket = site.bus.kv(SECRETS.name)
        assert len(await bucket.names()) == 2
        assert list((await sealed_values(bucket, site.follower.state, job)).values()) == ["s3cr3t-new"]
        await town.clock.sleep(2 * SWEEP_S)
        assert not await bucket.names()


def test_a_door_that_slept_gives_no_job_the_secrets_of_another_and_leaves_nothing_behind(tmp_path: Path) -> None:
    live(overtaken(tmp_path))


async def swept_late(folder: Path) -> None:
    town = Town(folder, seed=1)
    people = People(town)
    async with town:
        await town.begin(FLEETS, copies=1)
        await people.settle_in()
        site = town.processes["admission"].site
        bucket, epoch = site.bus.kv(SECRETS.name), site.follower.state.kept.epochs["admission"]
        await bucket.put(vault_name(JobId(7), epoch + 1), b"of a job that is not in the log yet")
        await bucket.put(vault_name(JobId(7), epoch - 1), b"of a job that never was")
        await town.clock.sleep(2 * SWEEP_S)
        assert await bucket.names() == [vault_name(JobId(7), epoch + 1)]


def test_a_door_that_does_not_know_it_leads_no_more_sweeps_away_nothing_of_its_successor(tmp_path: Path) -> None:
    live(swept_late(tmp_path))
