"""Every change of size has a cause from outside, names it, and uses it up: so no chain of changes goes on by itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import World, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_core.job import JobState, ResizeStage
from gangline_core.spec import Elastic, ResizeKind


def running(world: World, size: int = 2, where: str = "n1", **fields) -> JobId:
    terms = {"gpus": 1, "tasks": size, "minimum": 1, "maximum": 8, **fields}
    return world.submit_running(spec(**terms), where)


def turn(world: World, *, start: bool = True) -> tuple[f.Fact, ...]:
    """What the elastic service does now; the rest of the platform follows."""
    facts = elasticity.propose(world.state, "default", world.at)
    if facts:
        step = world.tell("elastic.default", *facts)
        assert not step.alarms
        world.settle() if start else world.round()
    return facts


def numbers(world: World, job: JobId) -> int:
    resize = world.job(job).resize
    return 0 if resize is None else resize.number


def test_a_proposal_names_the_last_message_from_outside() -> None:
    world = World(node(gpus=8))
    job = running(world)
    cause = world.state.kept.outside_seq
    [proposal] = elasticity.propose(world.state, "default", world.at)
    assert (proposal.job, proposal.because) == (job, cause)
    turn(world)
    assert world.state.kept.proofs == {job: cause}
    assert world.state.kept.outside_seq == cause, "its own growth is no cause"


@pytest.mark.parametrize("because", ["used up", "in the future"])
def test_the_fold_takes_no_proposal_whose_proof_does_not_hold(because: str) -> None:
    world = World(node(gpus=8))
    job = running(world)
    turn(world)
    seq = world.state.kept.proofs[job] + (1000 if because == "in the future" else 0)
    again = f.ResizeProposed(pool="default", job=job, role="worker", size=1, because=seq)
    step = world.tell("elastic.default", again)
    assert len(step.alarms) == 1
    assert not world.state.kept.pools["default"].proposals


def test_growth_whose_members_do_not_start_is_not_tried_again_by_itself() -> None:
    world = World(node(gpus=4))
    job = running(world, elastic=Elastic(kind=ResizeKind.TORCHRUN, start_s=60))
    for _ in range(5):
        turn(world, start=False)
        world.wait(60)
        turn(world, start=False)
        world.stop_all()
        world.round()
    assert (world.job(job).state, world.job(job).sizes) == (JobState.RUNNING, {"worker": 2})
    assert world.job(job).resize.stage == ResizeStage.FAILED
    assert numbers(world, job) == 1
    world.see(node("n2", gpus=4))
    assert turn(world), "a new node is a cause to try again"


def test_a_gang_that_never_meets_at_its_new_size_starts_anew_once_and_not_for_ever() -> None:
    world = World(node(gpus=4))
    job = running(world, elastic=Elastic(kind=ResizeKind.TORCHRUN, confirm_s=60))
    for _ in range(6):
        turn(world, start=False)
        world.start(job)
        world.wait(60)
        turn(world, start=False)
        world.stop_all()
        world.settle()
    assert world.job(job).attempt == 2
    assert numbers(world, job) == 1


def test_room_that_a_size_by_hand_gives_back_reaches_others() -> None:
    world = World(node(gpus=8))
    first, second = running(world, 6, maximum=6), running(world, 2)
    world.tell("admission", f.ResizeAsked(job=first, role="worker", size=1, by="ada"))
    assert [fact.job for fact in turn(world)] == [first]
    assert [fact.job for fact in turn(world)] == [second]
    assert world.job(second).sizes == {"worker": 7}
    assert turn(world) == ()


def test_a_size_by_hand_that_there_is_no_room_for_is_asked_for_once_per_cause() -> None:
    world = World(node(gpus=4))
    job = running(world, 2, maximum=8)
    world.submit_running(spec(gpus=2, preemptible=False), "n1")
    world.tell("admission", f.ResizeAsked(job=job, role="worker", size=8, by="ada"))
    assert len(turn(world)) == 1
    assert turn(world) == ()
    world.see(node("n2"))
    turn(world)
    assert world.job(job).sizes == {"worker": 8}


@pytest.mark.parametrize("policy", sorted(elasticity.POLICIES))
def test_a_demand_of_seven_with_gangs_of_three_is_one_change_at_most(policy: str) -> None:
    for begin in (3, 6):
        world = World(node(gpus=7)).set_policy(elastic=policy)
        job = running(world, begin, minimum=3, maximum=12, sizes=[3, 6, 9, 12])
        for _ in range(20):
            world.wait(600)
            turn(world)
        assert numbers(world, job) <= 1


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(sorted(elasticity.POLICIES)))
def test_each_change_of_a_job_by_a_policy_has_a_newer_cause_than_the_one_before(data, policy: str) -> None:
    world = World(node(gpus=6), node("n2", gpus=4)).set_policy(elastic=policy, elastic_interval_s=60)
    jobs = [running(world, 1, kind) for kind in ("n1", "n2")]
    seen: dict[JobId, int] = {}
    for _ in range(data.draw(st.integers(1, 8))):
        match data.draw(st.sampled_from(["arrive", "end", "node", "time"])):
            case "arrive":
                world.submit(spec(gpus=data.draw(st.integers(1, 3))))
                world.settle()
            case "end" if others := [job for job in world.state.live_jobs() if job.id not in jobs]:
                world.finish(others[0].id)
                world.settle()
            case "node":
                world.see(node("n3", gpus=data.draw(st.integers(1, 4))))
            case _:
                world.wait(600)
        world.wait(60)
        before = dict(world.state.kept.proofs)
        for fact in turn(world):
            if isinstance(fact, f.ResizeProposed):
                assert 0 < fact.because <= world.state.kept.outside_seq
        for job, because in world.state.kept.proofs.items():
            changed = because != before.get(job)
            assert not changed or because > seen.get(job, 0)
            seen[job] = because
