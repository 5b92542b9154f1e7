"""Gangs of Kubernetes's coscheduling plugin: whole or not at all, and nothing is held by those who wait."""

import pytest
from tests.cases.drive import Drive
from tests.make import World, node, spec
from tests.oracles.played import Played, name_of, table

from gangline_core.job import JobState

TABLE = table("coscheduling")


@pytest.mark.parametrize("case", TABLE["thresholds"], ids=name_of)
def test_whatever_part_of_a_gang_fits_it_holds_all_or_nothing(case):
    world = World(node("n1", gpus=10))
    if taken := 10 - case["room"]:
        world.submit_running(spec(gpus=taken), "n1")
    gang = world.submit(tasks=case["members"], gpus=1)
    single = world.submit(gpus=1)
    world.settle()
    assert len(world.tasks(gang)) == case["ours"]
    holds_room_in_vain = case["theirs"] not in (0, case["members"])
    assert (case["ours"] != case["theirs"]) == holds_room_in_vain
    if 0 < case["room"] < case["members"]:
        assert world.job(single).state in (JobState.WAITING, JobState.RUNNING)
        assert world.job(gang).state == JobState.WAITING


@pytest.mark.parametrize("run", TABLE["soak"]["runs"], ids=lambda run: f"every {run['every_s']} s")
def test_a_stream_of_gangs_never_comes_to_a_stop(run):
    drive = Drive(node("n1"), node("n2"))
    asks = [
        drive.ask(run["every_s"] * k, tasks=(5 * k) % 8 + 1, gpus=1, topology="node", run=30, limit=30)
        for k in range(60)
    ]
    for second in range(0, run["latest_s"], run["every_s"]):
        drive.until(second)
        for job in drive.state.kept.jobs.values():
            assert len(job.tasks) in (0, job.spec.roles[0].count), "no room is held by a gang that is not whole"
    drive.finish_all()
    assert max(ask.ended for ask in asks) <= run["latest_s"]


@pytest.mark.parametrize("case", TABLE["scenarios"], ids=name_of)
def test_who_runs_in_the_end(case):
    Played(case).prove()
