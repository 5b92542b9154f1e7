"""Jobs that starve go first on a part of the pool: where everybody waits for long, the ordering still counts."""

import pytest
from msgspec.structs import replace
from tests.clockwork import Clockwork
from tests.make import World, gpu_amount, group, node, spec

from gangline_core.facts import DrainSet
from gangline_core.job import JobState
from gangline_core.settings.policy import policy_problem
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_core.telling.explain import explain

STARVES_S = 100


def running(made: World, among: list[int]) -> list[int]:
    return [job for job in among if made.job(job).state == JobState.RUNNING]


def one_by_one(made: World, count: int) -> None:
    """GPUs come free one at a time: whoever is next has a round of its own."""
    for k in range(count):
        made.finish(made.fillers[k]).settle()


def filled(**policy) -> World:
    """The same, where eight jobs of one GPU each have the machine and end one after the other."""
    made = World(node("n1")).set_policy(
        **{"formula": "1000 * priority", "starvation_s": STARVES_S, "preemption": False, **policy}
    )
    made.fillers = [made.submit_running(spec(f"first-{k}", gpus=1), "n1") for k in range(8)]
    made.old = [made.submit(spec(f"old-{k}", gpus=1)) for k in range(8)]
    made.wait(STARVES_S - 10)
    made.urgent = [made.submit(spec(f"urgent-{k}", gpus=1, priority=5)) for k in range(8)]
    made.wait(20)
    return made


def test_a_quarter_goes_by_age_and_the_rest_by_the_ordering():
    made = filled()
    one_by_one(made, 5)
    assert running(made, made.old) == made.old[:2], "two of eight GPUs"
    assert running(made, made.urgent) == made.urgent[:3]
    assert [made.job(job).first_by_age for job in (*made.old[:3], made.urgent[0])] == [True, True, False, False]


def test_when_one_of_them_ends_the_next_old_one_goes_first():
    made = filled()
    one_by_one(made, 5)
    made.finish(made.old[0]).settle()
    assert running(made, made.old) == made.old[1:3]
    made.finish(made.urgent[0]).settle()
    assert running(made, made.old) == made.old[1:3]
    assert running(made, made.urgent) == made.urgent[1:4]


@pytest.mark.parametrize(("percent", "old"), [(100, 5), (50, 4), (1, 1)])
def test_how_much_of_the_pool_is_a_setting(percent, old):
    made = filled(starvation_percent=percent)
    one_by_one(made, 5)
    assert len(running(made, made.old)) == old
    assert len(running(made, made.urgent)) == 5 - old


def test_the_oldest_goes_first_however_large_it_is():
    made = World(node("n1")).set_policy(formula="1000 * priority", starvation_s=STARVES_S)
    filler = made.submit_running(spec("first", gpus=8), "n1")
    large, other = made.submit(spec("large", gpus=8)), made.submit(spec("large too", gpus=8))
    made.wait(STARVES_S + 1)
    urgent = made.submit(spec("urgent", gpus=8, priority=5))
    made.finish(filler).settle()
    assert made.job(large).state == JobState.RUNNING
    made.finish(large).settle()
    assert made.job(other).state == JobState.RUNNING, "nobody who went first holds anything any more"
    made.finish(other).settle()
    assert made.job(urgent).state == JobState.RUNNING


def test_one_that_cannot_start_does_not_keep_the_part_from_those_behind_it():
    made = World(node("n1"), node("n2", model="V100")).set_policy(formula="1000 * priority", starvation_s=STARVES_S)
    filler = made.submit_running(spec("first", gpus=8), "n1")
    gone = made.submit(spec("gone", gpus=8, gpu_models=["V100"]))
    made.tell("admission", DrainSet(node="n2", drained=True, by="admin"))
    old = made.submit(spec("old", gpus=2))
    made.wait(STARVES_S + 1)
    urgent = made.submit(spec("urgent", gpus=8, priority=5))
    made.finish(filler).settle()
    assert made.job(old).state == JobState.RUNNING
    assert {made.job(gone).state, made.job(urgent).state} == {JobState.WAITING}


def test_a_job_in_its_group_s_limit_counts_for_nothing():
    made = World(node("n1"), groups=[group("lab", limit=gpu_amount(1))])
    made.set_policy(formula="1000 * priority", starvation_s=STARVES_S, preemption=False)
    fillers = [made.submit_running(spec(f"first-{k}", gpus=1, group="lab" if not k else ""), "n1") for k in range(8)]
    for k in range(4):
        made.submit(spec(f"kept out {k}", gpus=1, group="lab"))
    old = made.submit(spec("old", gpus=1))
    made.wait(STARVES_S + 1)
    urgent = made.submit(spec("urgent", gpus=1, priority=5))
    made.finish(fillers[7]).settle()
    assert made.job(old).state == JobState.RUNNING
    assert made.job(urgent).state == JobState.WAITING


def test_who_waits_is_told_which_of_both_it_is():
    made = filled()
    told = "longer than 100 s, so it goes before everything younger."
    assert any(note.endswith(told) for note in explain(made.state, made.old[5], made.at).notes)
    one_by_one(made, 5)
    told = "longer than 100 s, but jobs that went first for that hold 25 % of the pool: until some of them end the "
    assert any(told in note for note in explain(made.state, made.old[5], made.at).notes)


def test_a_state_from_a_snapshot_knows_what_they_hold():
    made = filled()
    one_by_one(made, 5)
    again = decode_snapshot(encode_snapshot(made.state))
    used = made.state.live_index.first_by_age.used("default")
    assert used.gpu_milli == 2000
    assert again.live_index.first_by_age.used("default") == used


def test_what_is_requeued_holds_nothing_of_the_part():
    made = filled()
    one_by_one(made, 5)
    made.cancel(made.old[0]).settle()
    made.finish(made.old[1])
    assert made.state.live_index.first_by_age.used("default").gpu_milli <= 1000


def test_under_endless_overload_urgent_jobs_do_not_wait_for_all_that_are_old():
    """Half as much again as there is: by age alone the urgent wait as long as everybody does."""
    waits = {}
    for percent in (25, 100):
        clock = Clockwork(
            node("n1"), ordering="priority", starvation_s=STARVES_S, starvation_percent=percent, preemption=False
        )
        for k in range(120):
            clock.arrive(k * 5, spec(f"job-{k}", gpus=1, priority=5 if k % 4 == 0 else 0), runs_s=60)
        clock.run(1_100)
        jobs = clock.world.state.kept.jobs.values()
        urgent = [job for job in jobs if job.spec.priority]
        waits[percent] = sum(job.waited_ms for job in urgent) / len(urgent) / 1000
        assert all(job.state == JobState.SUCCEEDED for job in jobs), "nobody starves either way"
    assert waits[25] < waits[100] / 3


def test_whose_victims_are_gone_takes_its_part_before_the_others_of_the_round():
    made = World(node("n1")).set_policy(ordering="priority", starvation_s=STARVES_S)
    fillers = [made.submit_running(spec(f"first-{k}", gpus=1, priority=-5), "n1") for k in range(8)]
    made.set_policy(preemption=False)
    claims = made.submit(spec("claims", gpus=2))
    old = made.submit(spec("old", gpus=2, preempts=False))
    made.wait(STARVES_S + 1)
    urgent = made.submit(spec("urgent", gpus=2, priority=5, preempts=False))
    made.set_policy(preemption=True).round()
    assert list(made.state.kept.claims) == [claims]
    running = [job for job in fillers if made.job(job).state == JobState.RUNNING]
    made.stop_all().finish(*running[:2])
    made.round()
    made.settle()
    assert made.job(claims).first_by_age
    assert (made.job(old).state, made.job(urgent).state) == (JobState.WAITING, JobState.RUNNING)


@pytest.mark.parametrize("sharing", ["", "interleaved"])
def test_what_is_lent_anew_goes_by_age_for_a_quarter_too(sharing):
    """Seed 1500185: with each lease all of a pool was lent by age alone."""
    made = filled(lease_s=STARVES_S, sharing=sharing)
    made.round()
    made.settle()
    assert running(made, made.old) == made.old[:2], "two of eight GPUs"
    assert running(made, made.urgent) == made.urgent[:6]
    assert [made.job(job).first_by_age for job in (*made.old[:2], *made.urgent[:2])] == [True, True, False, False]


def test_who_is_lent_room_by_the_ordering_does_not_go_first_for_its_age():
    made = filled(lease_s=STARVES_S)
    for job in made.urgent[3:]:
        made.cancel(job)
    made.finish(*made.fillers)
    decided = made.round()
    assert [one.job for one in decided.placements] == [*made.old[:2], *made.urgent[:3], *made.old[2:5]]
    assert [one.first_by_age for one in decided.placements] == [True, True, *[False] * 6]


def test_who_finds_no_room_in_a_lease_keeps_none_of_the_part_from_others():
    """The oldest asks for more than what is lent anew, since a job that is protected keeps its own."""
    made = World(node("n1")).set_policy(
        ordering="priority", starvation_s=STARVES_S, lease_s=STARVES_S, preemption=False, backfill_depth=0
    )
    made.submit_running(spec("stays", gpus=2, protected_s=-1), "n1")
    fillers = [made.submit_running(spec(f"first-{k}", gpus=1), "n1") for k in range(6)]
    large = made.submit(spec("large", gpus=8))
    old = [made.submit(spec(f"old-{k}", gpus=1)) for k in range(4)]
    made.wait(STARVES_S + 1)
    urgent = [made.submit(spec(f"urgent-{k}", gpus=1, priority=5)) for k in range(8)]
    made.finish(*fillers)
    made.round()
    lent = [one.job for one in made.state.kept.pools["default"].leases]
    assert lent[:3] == [large, *old[:2]], "two of eight GPUs, and one that gets none"
    made.settle()
    assert running(made, [*old, *urgent]) == [*old[:2], *urgent[:4]]
    assert [made.job(job).first_by_age for job in (large, *old[:2])] == [False, True, True]


def test_where_all_go_by_age_nobody_is_counted():
    made = filled(ordering="fifo")
    one_by_one(made, 5)
    assert running(made, made.old) == made.old[:5]
    assert not any(made.job(job).first_by_age for job in made.old)


@pytest.mark.parametrize("percent", [0, 101])
def test_a_part_that_is_none_is_refused(percent):
    policy = World(node("n1")).set_policy().state.kept.pools["default"].policy
    problem = policy_problem(replace(policy, starvation_percent=percent))
    assert problem is not None
    assert problem.field == "starvation_percent"
