"""Guests by AntMan's rule: opportunistic jobs in the time that others leave, promoted when these end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_companies import live, milli, on_gpus, running, sharing_spec
from tests.core.test_pairs import busy
from tests.make import World, gpu_amount, group, node

from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.elasticity.limits import limits
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.pauses.pausing import companions
from gangline_core.settings.policy import policy_problem
from gangline_core.sharing.guests import gpu_percent
from gangline_core.spec import ServiceClass
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_core.telling.explain import explain
from gangline_wire.contract import sizing

GUESTS = {"ordering": "fifo", "sharing": "guests", "starvation_s": 0, "backfill_depth": 0}
LIGHT, HALF, HEAVY = busy(30), busy(60), busy(95)
OPPORTUNISTIC = {"service_class": ServiceClass.OPPORTUNISTIC}


def world_of(*nodes, **policy) -> World:
    return World(*(nodes or (node(gpus=2),))).set_policy(**{**GUESTS, **policy})


def owner_of(stages=HALF, **fields):
    return sharing_spec(stages, **fields)


def guest_of(stages=HALF, **fields):
    return sharing_spec(stages, **OPPORTUNISTIC, **fields)


def is_true(world: World) -> bool:
    return recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}


def test_an_opportunistic_job_without_room_starts_at_once_in_the_time_that_another_leaves() -> None:
    world = world_of()
    owner = world.submit(owner_of())
    world.settle()
    guest = world.submit(guest_of())
    decided = world.round()
    assert [(one.job, one.beside) for one in decided.placements] == [(guest, owner)]
    world.settle()
    assert milli(world, owner, guest) == [1000, 0]
    assert [share.memory_mib for share in world.tasks(guest)[0].gpus] == [9_000, 9_000]
    assert is_true(world)


def test_room_of_its_own_comes_first() -> None:
    world = world_of(node(gpus=4))
    world.submit(owner_of())
    world.settle()
    guest = world.submit(guest_of())
    world.settle()
    assert milli(world, guest) == [1000]
    assert not world.state.kept.packs


def test_when_the_owner_ends_the_guest_is_promoted_and_not_started_again() -> None:
    world = world_of()
    owner, guest = world.submit(owner_of()), world.submit(guest_of())
    world.settle()
    world.wait(10).finish(owner)
    assert milli(world, guest) == [1000]
    assert world.job(guest).attempt == 1
    assert world.job(guest).state == JobState.RUNNING
    assert not world.state.kept.packs
    assert is_true(world)


def test_gpus_of_a_gang_become_the_guests_one_by_one() -> None:
    world = world_of(node("n1", gpus=2), node("n2", gpus=2))
    owner, guest = world.submit(owner_of(tasks=2)), world.submit(guest_of(tasks=2))
    world.settle()
    gone, stays = world.tasks(owner)
    world.exit(gone.id).empty(gone.id)
    assert {task.node: task.gpus[0].milli for task in world.tasks(guest)} == {gone.node: 1000, stays.node: 0}
    assert world.state.use[gone.node].gpu_milli == [1000, 1000]
    world.exit(stays.id).empty(stays.id)
    assert milli(world, guest) == [1000, 1000]


def test_who_is_not_opportunistic_takes_the_gpus_and_the_other_stays_as_its_guest() -> None:
    world = world_of()
    guest = world.submit(guest_of())
    world.settle()
    owner = world.submit(owner_of())
    decided = world.round()
    assert [(one.job, one.beside) for one in decided.placements] == [(owner, guest)]
    assert not decided.evictions
    world.settle()
    assert milli(world, owner, guest) == [1000, 0]
    assert world.job(guest).attempt == 1
    assert companions(world.state, guest) == (owner,)
    assert world.state.kept.packs[guest].host == owner
    assert is_true(world)
    world.wait(5).finish(owner)
    assert milli(world, guest) == [1000]


def test_one_whose_gpus_are_busy_evicts_as_ever_and_has_no_guests() -> None:
    world = world_of()
    guest = world.submit(guest_of())
    world.settle()
    owner = world.submit(owner_of(HEAVY))
    world.settle()
    assert running(world) == [owner]
    assert world.job(guest).state == JobState.WAITING


@pytest.mark.parametrize(
    ("owner", "comes"),
    [
        (owner_of({}), guest_of()),
        (owner_of(HEAVY), guest_of()),
        (owner_of(most_mib=35_000), guest_of()),
        (owner_of(most_mib=0), guest_of()),
        (owner_of(), guest_of(most_mib=0)),
        (owner_of(), guest_of(gpus=1)),
        (owner_of(), owner_of()),
        (guest_of(), guest_of()),
    ],
    ids=[
        "nobody knows how busy",
        "too busy",
        "no memory",
        "all memory is its own",
        "the guest bounds none",
        "another size",
        "neither is opportunistic",
        "both are",
    ],
)
def test_who_waits(owner, comes) -> None:
    world = world_of()
    first = world.submit(owner)
    world.settle()
    second = world.submit(comes)
    world.settle()
    assert running(world) == [first]
    assert world.job(second).state == JobState.WAITING
    assert milli(world, first) == [1000]


def test_of_several_owners_the_least_busy_one_has_the_guest() -> None:
    world = world_of(node(gpus=6))
    jobs = []
    for stages in (HALF, LIGHT, HEAVY):
        jobs.append(world.submit(owner_of(stages)))
        world.settle()
    guest = world.submit(guest_of())
    world.settle()
    assert companions(world.state, guest) == (jobs[1],)


def test_what_was_measured_goes_before_what_is_told() -> None:
    world = world_of()
    owner = world.submit(owner_of(LIGHT))
    world.settle()
    assert gpu_percent(world.state, world.job(owner)) == 30
    world.tell("telemetry", f.JobUsed(job=owner, gpu_percent=85, window_s=60))
    guest = world.submit(guest_of())
    world.settle()
    assert world.job(guest).state == JobState.WAITING


def test_a_guest_comes_as_soon_as_it_was_measured_that_its_owner_leaves_time() -> None:
    world = world_of()
    owner = world.submit(owner_of({}))
    world.settle()
    guest = world.submit(guest_of())
    world.settle()
    assert world.job(guest).state == JobState.WAITING
    world.tell("telemetry", f.JobUsed(job=owner, gpu_percent=85, window_s=60))
    assert world.settle() == 0
    world.tell("telemetry", f.JobUsed(job=owner, gpu_percent=70, window_s=60))
    world.settle()
    assert companions(world.state, guest) == (owner,)


def test_an_owner_has_one_guest() -> None:
    world = world_of()
    owner, guest, third = world.submit(owner_of()), world.submit(guest_of()), world.submit(guest_of())
    world.settle()
    assert running(world) == [owner, guest]
    assert world.job(third).state == JobState.WAITING


def test_a_guest_needs_quota_for_all_that_may_be_its_own() -> None:
    world = World(node(gpus=2), groups=[group(), group("small", limit=gpu_amount(1))]).set_policy(**GUESTS)
    owner = world.submit(owner_of())
    world.submit(guest_of(group="small"))
    world.settle()
    assert running(world) == [owner]


def test_whoever_may_send_the_owner_away_sends_its_guest_with_it() -> None:
    world = world_of(ordering="priority")
    owner, guest = world.submit(owner_of()), world.submit(guest_of())
    world.settle()
    important = world.submit(owner_of(HEAVY, priority=50, most_mib=0))
    world.settle()
    assert running(world) == [important]
    assert {world.job(job).state for job in (owner, guest)} == {JobState.WAITING}


def test_a_guest_is_held_back_by_the_steps_of_its_owner_and_no_more_once_it_is_alone() -> None:
    world = world_of()
    owner, guest = world.submit(owner_of()), world.submit(guest_of())
    world.settle()
    task = world.tasks(guest)[0]
    said = limits(world.state, "default")
    assert [(one.job, one.percent) for one in said] == [(guest, 10)]
    world.tell("elastic", *said)
    assert sizing(world.job(guest), task, [task]).limits == {"gpu_percent": 10, "gpu_memory_mib": 18_000}
    assert sizing(world.job(owner), world.tasks(owner)[0], world.tasks(owner)).limits == {}
    world.wait(10).finish(owner)
    said = limits(world.state, "default")
    assert [(one.job, one.percent) for one in said] == [(guest, 100)]
    world.tell("elastic", *said)
    assert not limits(world.state, "default")
    task = world.tasks(guest)[0]
    assert sizing(world.job(guest), task, [task]).limits == {}


def test_who_would_be_a_guest_does_not_take_what_another_leaves_for_one_that_is_not_opportunistic() -> None:
    """Of two that are opportunistic one stood back, and the other had its room instead of being a guest."""
    world = world_of(node("n1", gpus=2))
    first = world.submit(owner_of(LIGHT, gpus=1, most_mib=9_000))
    one, guest = (world.submit(guest_of(LIGHT, gpus=1, most_mib=most_mib)) for most_mib in (0, 9_000))
    firm = world.submit(owner_of(LIGHT, gpus=1))
    decided = world.round()
    assert decided is not None
    placed = {placement.job: placement.beside for placement in decided.placements}
    assert placed == {first: 0, firm: 0, guest: first}
    assert world.job(one).state == JobState.WAITING


def test_for_each_of_two_that_are_alike_one_stands_back_also_where_the_first_made_another_a_guest() -> None:
    """For the second it was taken for tried, since the same two had started."""
    world = world_of(node("n1", gpus=3))
    first = world.submit(owner_of(LIGHT, gpus=1, most_mib=9_000))
    for most_mib in (0, 9_000):
        world.submit(guest_of(LIGHT, gpus=1, most_mib=most_mib))
    alike = [world.submit(owner_of(LIGHT, gpus=1)) for _ in range(2)]
    decided = world.round()
    assert decided is not None
    assert {placement.job for placement in decided.placements if not placement.beside} == {first, *alike}


def test_both_are_told_with_whom_they_share() -> None:
    world = world_of()
    owner, guest = world.submit(owner_of()), world.submit(guest_of())
    world.settle()
    assert f"guest on the GPUs of job {owner}" in str(explain(world.state, guest, world.at))
    assert f"Job {guest} is a guest on its GPUs" in str(explain(world.state, owner, world.at))


def test_a_snapshot_keeps_who_is_whose_guest() -> None:
    world = world_of()
    owner, guest = world.submit(owner_of()), world.submit(guest_of())
    world.settle()
    again = decode_snapshot(encode_snapshot(world.state))
    assert again.kept.packs == world.state.kept.packs
    assert again.kept.packs[guest].is_guest
    assert again.kept.packs[guest].host == owner


@given(
    jobs=st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from([LIGHT, HALF, HEAVY, {}]),
            st.sampled_from([1, 2, 4]),
            st.sampled_from([0, 9_000, 20_000, 30_000]),
            st.booleans(),
        ),
        max_size=14,
    ),
    ends=st.lists(st.integers(0, 13), max_size=10),
)
@settings(max_examples=60, deadline=None)
def test_never_three_on_a_gpu_and_whoever_is_not_opportunistic_has_all_of_its_time(jobs, ends) -> None:
    world = world_of(node("n1", gpus=4), node("n2", gpus=4))
    asked = (
        ((guest_of if opportunistic else owner_of)(stages, gpus=gpus, most_mib=most_mib), settles)
        for opportunistic, stages, gpus, most_mib, settles in jobs
    )
    live(world, asked, ends, _check)
    # Nobody who is not opportunistic waits while an opportunistic job has GPUs that it could have.
    waits = {world.job(one.id).spec.roles[0].resources.gpu_milli for one in world.waiting() if not _is_low(one)}
    lone = [job for job in running(world) if _is_low(world.job(job)) and not companions(world.state, job)]
    assert not waits & {world.job(job).spec.roles[0].resources.gpu_milli for job in lone}


def _is_low(job) -> bool:
    return job.service_class == ServiceClass.OPPORTUNISTIC


def _check(world: World) -> None:
    for (name, index), shares in on_gpus(world).items():
        gpu = next(gpu for gpu in world.state.kept.nodes[name].gpus if gpu.index == index)
        assert len(shares) <= 2
        assert sorted(milli for _, milli, _ in shares) == [0, 1000][-len(shares) :]
        assert sum(mib for _, _, mib in shares) <= gpu.memory_mib
        lows = {_is_low(world.job(job)): milli for job, milli, _ in shares}
        if len(shares) == 2:
            assert lows == {False: 1000, True: 0}
    assert is_true(world)


def test_guests_stand_beside_no_other_way_of_sharing_time() -> None:
    for wrong in (
        Policy(sharing="guests", lease_s=60),
        Policy(sharing="guests", time_slice_s=600),
        Policy(sharing="guests", packing=True),
        Policy(sharing="guests", schedulers=2),
    ):
        assert policy_problem(wrong) is not None
    assert policy_problem(Policy(sharing="guests")) is None
