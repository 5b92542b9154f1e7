"""Jobs that go on where they stopped make way for each other: who had its share for who had less, never in turn."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.clockwork import Clockwork
from tests.make import World, gpu_amount, group, node, spec

from gangline_core.door.draft import Draft
from gangline_core.door.edits import JobEdit
from gangline_core.door.job_rights import EditProblem, Standing, check_edit
from gangline_core.facts import Eviction, GroupSet, JobEdited, JobTopped
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.ordering import ORDERINGS, order
from gangline_core.reasons import ReasonCode
from gangline_core.telling.explain import explain
from gangline_core.wake import next_wake_ms
from gangline_lab.audit import preemptions_of

SHARE_S, RUN_S, WAIT_S, STARVES_S = 800, 60, 300, 120
"""GPU-seconds after which a job makes way, how long a run is left alone, after which waits it starves."""
POLICY: dict[str, Any] = {
    "yield_after_gpu_s": SHARE_S,
    "yield_run_s": RUN_S,
    "yield_wait_s": WAIT_S,
    "starvation_s": STARVES_S,
}


def world(**long: Any) -> World:
    """Eight GPUs, all taken by job 1, which checkpoints and has its share after 100 s."""
    there = World(node("n1"), groups=(group("lab"), group("other"))).set_policy(**POLICY)
    there.submit(spec("long", **{"gpus": 8, "checkpoints": True, "group": "lab", **long}))
    there.settle()
    return there


def evictions(there: World, **fields: Any) -> list[Eviction]:
    """What a new job has the next round evict."""
    there.submit(spec("new", **{"gpus": 8, "checkpoints": True, "group": "lab", **fields}))
    decided = there.round()
    assert decided is not None
    return list(decided.evictions)


def test_a_waiting_job_may_say_later_that_it_checkpoints_and_one_that_runs_may_not_take_it_back():
    there = had_its_share(world())
    job = there.submit(spec("new", gpus=8, group="lab"))
    assert not there.round().evictions
    say, deny = JobEdit(checkpoints=True), JobEdit(checkpoints=False)

    def fault(job: int, edit: JobEdit) -> EditProblem | None:
        standing = Standing.OWNER
        return check_edit(there.state, Draft(), job=job, edit=edit, standing=standing, by="ada", at=there.at)

    assert fault(job, say) is None
    there.tell("admission", JobEdited(job=job, edit=say, by="ada"))
    assert [(one.job, one.rule) for one in there.round().evictions] == [(1, "yield")]
    refused = fault(1, deny)
    assert refused is not None
    assert (refused.kind, refused.field) == ("conflict", "checkpoints")
    there.tell("admission", JobEdited(job=JobId(1), edit=deny, by="ada"))
    assert there.job(JobId(1)).spec.checkpoints


def had_its_share(there: World) -> World:
    return there.wait(110)


def test_who_had_its_share_makes_way_for_who_had_less():
    [one] = evictions(had_its_share(world()))
    assert (one.job, one.beneficiary, one.rule, one.lost_ms) == (1, 2, "yield", 0)


@pytest.mark.parametrize(
    ("long", "new"),
    [
        ({"checkpoints": False}, {}),
        ({}, {"checkpoints": False}),
        ({"priority": 1}, {}),
        ({"level": "high"}, {}),
        ({"preemptible": False}, {}),
        ({"protected_s": 3_600}, {}),
        ({}, {"preempts": False}),
    ],
)
def test_who_says_nothing_or_is_more_important_keeps_its_room_and_who_says_nothing_takes_none(long, new):
    assert not evictions(had_its_share(world(**long)), **new)


def test_who_had_less_keeps_its_room():
    assert not evictions(world().wait(90))


def test_a_run_is_left_alone_for_a_while_however_much_the_job_had():
    there = had_its_share(world())
    evictions(there, gpus=1)
    there.settle()
    there.finish(2)
    there.settle()
    assert there.job(1).attempt == 2
    assert not evictions(there.wait(RUN_S - 10))
    assert [one.rule for one in evictions(there.wait(20), gpus=1)] == ["yield"]


@pytest.mark.parametrize(
    "policy",
    [
        {"yield_after_gpu_s": 0},
        {"preemption": False},
        {"ordering": "least_attained"},
        {"time_slice_s": 50_000},
        {"lease_s": 50_000},
    ],
)
def test_nobody_makes_way_where_the_policy_says_so_or_has_others_take_turns(policy):
    there = had_its_share(world()).set_policy(**{**POLICY, **policy})
    assert not evictions(there)


def test_what_a_group_is_guaranteed_stays_with_it():
    there = had_its_share(world())
    there.tell("admission", GroupSet(group=group("lab", guaranteed=gpu_amount(8)), by="test"))
    assert not evictions(there, group="other")


def test_somebody_looks_when_a_running_job_has_had_its_share():
    there = world()
    there.submit(spec("new", gpus=8, checkpoints=True, group="lab"))
    there.settle()
    begun = there.state.kept.tasks["1-1-worker-0"].placed_ms  # type: ignore[index]  # a task id is a plain string here
    assert next_wake_ms(there.state, "default", there.at) == begun + 100_000


def made_way(**policy: Any) -> World:
    """Job 1 had its share and waits; job 2, which has its room, is just beginning."""
    there = had_its_share(world()).set_policy(**{**POLICY, **policy})
    assert evictions(there)
    there.settle()
    assert (there.job(1).state, there.job(2).state) == (JobState.WAITING, JobState.RUNNING)
    return there


@pytest.mark.parametrize("ordering", sorted(ORDERINGS))
def test_who_had_its_share_stands_behind_those_that_had_less_and_are_no_less_important(ordering):
    there = made_way()
    there.set_policy(**{**POLICY, "ordering": ordering, "formula": "level + 1000 * priority + 10 * age_hours"})
    there.submit(spec("less", gpus=4, group="lab"), spec("low", gpus=4, group="lab", priority=-1))
    pool = there.state.kept.pools["default"]
    ordered = order(there.state, pool, there.waiting(), there.at)
    place = {candidate.job: k for k, candidate in enumerate(ordered.candidates)}
    moves = ordering != "least_attained"
    assert (place[1] > place[3]) is moves or ordering == "least_attained"
    if ordering in ("priority", "weighted"):
        assert place[1] < place[4]
    assert ("lets_pass" in ordered.terms) is moves
    for candidate in ordered.candidates:
        assert candidate.score == sum(candidate.terms)
    if moves:
        assert [one.terms[-1] for one in ordered.candidates if one.job != 1] == [0, 0]
        assert ordered.candidates[place[1]].terms[-1] <= 0


def test_nothing_of_it_is_seen_where_nobody_checkpoints():
    there = world(checkpoints=False).wait(110)
    there.submit(spec("new", gpus=8, group="lab"))
    opened = there.state.kept.pools["default"]
    assert "lets_pass" not in order(there.state, opened, there.waiting(), there.at).terms


def test_it_is_told_that_it_lets_others_pass_and_until_when():
    there = world()
    running = explain(there.state, 1, there.at)
    assert running is not None
    assert any("It checkpoints, and makes way from 2023-11-14 22:15:00 UTC on" in note for note in running.notes)
    there = made_way()
    there.submit(spec("less", gpus=8, group="lab", checkpoints=True))
    there.settle()
    waiting = explain(there.state, 1, there.at)
    assert waiting is not None
    assert any(
        "It checkpoints and had 0.24 GPU-hours, so those go first that had less than 0.22 GPU-hours or are taken to "
        "need less than 0.22 more, until" in note
        for note in waiting.notes
    )
    assert "lets_pass" in dict(waiting.terms)
    there.wait(WAIT_S + 1)
    waiting = explain(there.state, 1, there.at)
    assert waiting is not None
    assert any(f"longer than {WAIT_S} s, so it goes before everything younger" in note for note in waiting.notes)


def test_it_starves_after_the_policys_wait_and_then_makes_way_no_more():
    there = made_way()
    there.wait(WAIT_S + 1)
    there.submit(spec("less", gpus=8, group="lab", checkpoints=True))
    decided = there.round()
    assert decided is not None
    assert [(one.job, one.beneficiary, one.rule) for one in decided.evictions] == [(2, 1, "yield")], "it goes first"
    there.settle()
    assert there.job(1).state == JobState.RUNNING
    assert not evictions(there.wait(500))


def test_what_it_ran_before_it_made_way_was_not_in_vain():
    assert made_way().job(1).cut_off_ms == 0


def test_below_its_groups_limit_it_makes_way_as_well():
    there = World(node("n1"), node("n2"), groups=(group("lab", limit=gpu_amount(8)),)).set_policy(**POLICY)
    there.submit(spec("long", gpus=8, checkpoints=True, group="lab"))
    there.settle()
    there.submit(spec("new", gpus=8, checkpoints=True, group="lab"))
    there.settle()
    assert there.reason(2) == ReasonCode.GROUP_LIMIT
    there.wait(110)
    decided = there.round()
    assert decided is not None
    assert [(one.job, one.rule) for one in decided.evictions] == [(1, "yield")]


def test_one_that_takes_nothing_does_not_speak_for_an_equal_one_that_does():
    """Both ask for the same, and the one that had its share was put first."""
    there = made_way()
    there.wait(110).submit(spec("long", gpus=8, checkpoints=True, group="lab"))
    there.tell("admission", JobTopped(job=JobId(1), among="", by="test"))
    decided = there.round()
    assert decided is not None
    assert [(one.job, one.beneficiary) for one in decided.evictions] == [(2, 3)]


def test_an_audit_says_why_another_one_kept_its_room():
    there = World(node("n1"), node("n2"), groups=(group("lab"),)).set_policy(**POLICY)
    there.submit(spec("long", gpus=8, checkpoints=True, group="lab"))
    there.settle()
    there.wait(60).submit(spec("later", gpus=8, checkpoints=True, group="lab"))
    there.settle()
    assert evictions(there.wait(50))
    [one] = preemptions_of(there.log, there.log)
    assert one.rule == "yield"
    assert {other.party.job: other.why_not for other in one.others}[2] == "it had not had its share of 800 GPU-seconds"


# --- nobody waits for ever, and nobody goes and comes in turn for ever ---------------------------------------


def stream(*, until_s: float, gpus: int) -> Clockwork:
    """A large job that checkpoints, and small ones that do without end, more than there is room for beside it."""
    clock = Clockwork(node("n1"), **{"ordering": "weighted", **POLICY})
    clock.arrive(0, spec("large", gpus=8, checkpoints=True), runs_s=1_000, stops_s=2)
    for k in range(int(until_s / 10)):
        clock.arrive(105 + 10 * k, spec(f"small-{k}", gpus=gpus, checkpoints=True, time_limit_s=50), runs_s=45)
    return clock.run(until_s)


@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_under_an_endless_stream_of_smaller_jobs_who_made_way_waits_no_longer_than_told(gpus):
    clock = stream(until_s=3_000, gpus=gpus)
    large = clock.world.job(1)
    assert large.state == JobState.SUCCEEDED
    assert {one.rule for one in clock.evictions if one.job == 1} == {"yield"}
    # From when it starves on it waits for what runs, as any.
    assert large.waited_ms <= (WAIT_S + 50 + 1) * 1_000


@pytest.mark.parametrize("percent", [25, 100])
@pytest.mark.parametrize("time_limit_s", [0, 5_000])
def test_nor_does_it_where_the_others_run_long(time_limit_s, percent):
    """Where age counts on all of the pool no longer than told; on a part of it those have it before that are older.

    That are the four that came while the first had its share, which was no wait.
    """
    clock = Clockwork(node("n1"), **{"ordering": "weighted", "starvation_percent": percent, **POLICY})
    for k in range(40):
        asked = spec(f"job-{k}", gpus=8, checkpoints=True, time_limit_s=time_limit_s)
        clock.arrive(50 * k, asked, runs_s=400, stops_s=2)
    clock.run(60_000)
    jobs = clock.world.state.kept.jobs.values()
    assert {job.state for job in jobs} == {JobState.SUCCEEDED}
    assert max(job.preemptions for job in jobs) <= 400 / RUN_S
    first = clock.world.job(1)
    older = 0 if percent == 100 else 4 * 400
    assert first.waited_ms <= (WAIT_S + older + 2 * SHARE_S / 8) * 1_000, (
        "it makes way until it waited so long, no more"
    )


def test_who_came_into_the_stream_starts_in_time_and_ends():
    clock = Clockwork(node("n1"), **{"ordering": "weighted", **POLICY})
    for k in range(300):
        clock.arrive(10 * k, spec(f"small-{k}", gpus=2, checkpoints=True, time_limit_s=50), runs_s=45)
    clock.arrive(25, spec("large", gpus=8, checkpoints=True), runs_s=700)
    clock.run(3_000)
    large = next(job for job in clock.world.state.kept.jobs.values() if job.spec.name == "large")
    started = clock.first_start(large.id)
    assert started is not None
    assert started - 25 <= STARVES_S + 50 + 1
    assert large.state == JobState.SUCCEEDED


JOBS = st.lists(
    st.tuples(
        st.integers(0, 40), st.sampled_from([1, 2, 4, 8]), st.integers(20, 900), st.integers(-1, 1), st.booleans()
    ),
    min_size=2,
    max_size=8,
)


@given(jobs=JOBS)
@settings(max_examples=40, deadline=None)
def test_everybody_ends_and_each_run_that_ends_for_others_had_its_time(jobs):
    clock = Clockwork(node("n1"), **{"ordering": "weighted", **POLICY})
    for k, (at_10s, gpus, runs_s, priority, says) in enumerate(jobs):
        asked = spec(f"job-{k}", gpus=gpus, checkpoints=says, priority=priority)
        clock.arrive(10 * at_10s, asked, runs_s=runs_s, stops_s=3)
    clock.run(20_000)
    kept = clock.world.state.kept.jobs
    assert {job.state for job in kept.values()} == {JobState.SUCCEEDED}
    made_way = Counter(one.job for one in clock.evictions if one.rule == "yield")
    assert all(count <= clock.runs_s[job] / RUN_S for job, count in made_way.items()), "each run did something"
