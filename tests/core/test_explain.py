"""Every wait has a reason a user can act on, and an expected start or an honest unknown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import HOUR, SECOND, T0, World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.foresight.expected import CONFIDENCE
from gangline_core.foresight.run_times import Basis
from gangline_core.limits.accounting import budget_changes
from gangline_core.limits.gates import GATE_CODES, Sieve
from gangline_core.making_room.losses import BY_CLASS, BY_GUARANTEE, BY_PRIORITY, BY_SERVICE, BY_SLICE
from gangline_core.pauses.making_way import BY_SWITCH
from gangline_core.pauses.packing import RULE as PACKING
from gangline_core.reason_words import RULES
from gangline_core.reasons import HINTS, Reason, ReasonCode, hint, sentence
from gangline_core.scoring.yield_queue import BY_YIELD
from gangline_core.sharing.regroup import BY_LEASE
from gangline_core.spec import Dependency
from gangline_core.telling.explain import Book, explain, queue


def about(world: World, job):
    return explain(world.state, job, world.at)


def decide(world: World, **fields) -> None:
    world.tell("placement.default", f.RoundDecided(pool="default", round=0, **fields))


def test_a_waiting_job_shows_its_place_its_score_and_what_to_do():
    world = World(node()).set_policy(formula="10 * age_hours - gpus")
    world.submit_running(spec(gpus=8, time_limit_s=3600), "n1")
    first, second = world.submit(gpus=2), world.submit(gpus=4)
    told = about(world.wait(360), second)
    assert (told.position, told.waiting, told.state, told.slurm) == (2, 2, "waiting", "PD")
    assert told.score == -3_000_000
    assert told.terms == (("10 * age_hours", 1_000_000), ("-gpus", -4_000_000))
    assert told.code == ReasonCode.NOT_YET_CONSIDERED
    assert told.sentence == "In the queue at position 2; the next round looks at it."
    assert told.hint
    assert told.rejected == {"not enough GPUs free": 1}
    assert about(world, first).position == 1


def test_what_the_last_round_found_is_repeated_with_its_numbers():
    world = World(node())
    job = world.submit(gpus=8)
    reason = Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": 8, "free": 3, "total": 8})
    decide(world, refusals=(f.Refusal(reason=reason, jobs=(job,)),))
    told = about(world, job)
    assert told.reason == reason
    assert told.numbers["free"] == 3
    assert told.sentence == "Needs 8 GPUs; at its turn 3 of 8 suitable ones were free."


def test_a_gates_reason_is_judged_anew_and_never_stale():
    world = World(node(), groups=[group("a", limit=gpu_amount(4))])
    one = world.submit_running(spec(gpus=2, group="a"), "n1")
    two = world.submit_running(spec(gpus=2, group="a"), "n1")
    waits = world.submit(gpus=3, group="a")
    kept_out = tuple(Sieve(world.state, "default", world.at).changed())
    world.tell("queue.default", f.RoundOpened(pool="default", round=1, candidates=(), kept_out=kept_out))
    assert about(world, waits).sentence == "Group a uses 4 of 4 GPUs; the job needs 3 more."
    world.finish(one)
    assert about(world, waits).sentence == "Group a uses 2 of 4 GPUs; the job needs 3 more."
    world.finish(two)
    assert world.reason(waits) == ReasonCode.GROUP_LIMIT, "the record is old"
    assert about(world, waits).code == ReasonCode.NOT_YET_CONSIDERED, "the explanation is not"


def test_jobs_that_do_not_wait_say_where_they_stand():
    world = World(node())
    held = world.submit(gpus=1, hold=True)
    job = world.submit(gpus=1, tasks=2)
    assert "gangline release 1" in about(world, held).hint
    world.place(job, "n1")
    world.tell("agent.sim", f.TaskStarted(task=world.tasks(job)[0].id))
    assert about(world, job).sentence == "Starting: 1 of 2 tasks on 1 node have started."
    world.start(job)
    assert about(world, job).sentence == "Running since 2023-11-14 22:13:20 UTC: 2 tasks on 1 node."
    assert (about(world, job).code, about(world, job).position, about(world, job).score) == ("", 0, None)
    world.finish(job)
    assert about(world, job).code == ReasonCode.COMPLETED
    assert about(world, job).slurm == "CD"
    assert explain(world.state, 99, world.at) is None


def test_every_code_has_a_sentence_without_gaps_in_its_hint():
    for code in ReasonCode:
        assert sentence(Reason(code))
        assert "?" not in hint(Reason(code, {"job": 1}), job=2)
    waiting = {*GATE_CODES, ReasonCode.NOT_YET_CONSIDERED, ReasonCode.RESERVED, ReasonCode.HELD, ReasonCode.TOPOLOGY}
    assert waiting <= set(HINTS)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        *(
            (137, "KILL"),
            (139, "SEGV"),
            (143, "TERM"),
            (138, "signal 10 leaves"),
            (127, "do not find"),
            (126, "executed"),
        ),
        *((1, ""), (0, ""), (128, ""), (255, "")),
    ],
)
def test_an_exit_code_that_tells_something_by_itself_says_what(code, told):
    given = hint(Reason(ReasonCode.EXIT_CODE, {"task": "1-1-worker-0", "exit_code": code}), job=1)
    assert told in given
    assert bool(given) == bool(told)


def test_moments_are_told_as_dates():
    world = World(node())
    job = world.submit(gpus=1, not_before_ms=T0 + 60 * SECOND)
    assert about(world, job).sentence == "May not start before 2023-11-14 22:14:20 UTC."
    assert sentence(Reason(ReasonCode.NOT_BEFORE, {"not_before_ms": 10**18})).endswith("after 1970.")


def test_nodes_that_cannot_take_it_are_counted_by_cause():
    world = World(
        node("full", gpus=2),
        node("small", gpus=1),
        node("cpu", gpus=0),
        node("other", model="L4"),
        node("away"),
        node("gone"),
        node("tainted", taints=["maintenance"]),
        node("no-cpus", cpus=1),
        node("open"),
        node("broken", gpus=2),
        node("elsewhere", pool="x"),
    )
    world.submit_running(spec(gpus=2, cpus=2, time_limit_s=60), "full")
    world.tell("admission", f.DrainSet(node="away", drained=True, by="admin"))
    world.tell("telemetry", f.NodeLost(node="gone", silent_ms=1), f.GpuFailed(node="broken", gpu=1, problem="ecc"))
    job = world.submit(gpus=2, cpus=2, gpu_models=["A100"])
    assert about(world, job).rejected == {
        "GPUs failed": 1,
        "drained": 1,
        "lost": 1,
        "no GPUs": 1,
        "not enough CPUs free": 1,
        "not enough GPUs free": 1,
        "not so many GPUs": 1,
        "other GPU model": 1,
        "taint not tolerated": 1,
    }


def test_a_node_with_enough_gpus_of_several_models_takes_no_task_that_needs_them_of_one():
    two = node("two", gpus=2)
    mixed = replace(two, gpus=(two.gpus[0], replace(two.gpus[1], model="H100")))
    world = World(mixed, node("full", gpus=2))
    world.submit_running(spec(gpus=1), "full")
    waits = world.submit(gpus=2)
    world.round()
    told = about(world, waits)
    assert told.rejected == {"not enough GPUs free": 1, "not so many GPUs of one model": 1}
    assert told.shortfall.able_nodes == 0


# --- expected start -------------------------------------------------------------------------------------------


def test_a_start_is_bounded_by_the_time_limits_of_what_runs():
    world = World(node())
    world.submit_running(spec(gpus=8, time_limit_s=3600), "n1")
    job, behind = world.submit(gpus=8, time_limit_s=600), world.wait(1).submit(gpus=8)
    told = about(world, job)
    assert (told.start_from_ms, told.start_to_ms) == (world.at, T0 + 3600 * SECOND)
    assert told.confidence == "high"
    assert about(world, behind).start_to_ms == T0 + 4200 * SECOND


@pytest.mark.parametrize("why", ["drained", "lost"])
def test_what_ends_on_a_node_that_takes_no_work_comes_back_to_nobody(why):
    world = World(node("n1"), node("n2"))
    world.submit_running(spec(gpus=8, time_limit_s=3600), "n2")
    whole = world.submit(gpus=8, tasks=2)
    one = world.submit(gpus=8, tasks=1)
    assert about(world, whole).start_to_ms == T0 + 3600 * SECOND
    if why == "drained":
        world.tell("admission", f.DrainSet(node="n2", drained=True, by="admin"))
    else:
        world.tell("telemetry", f.NodeLost(node="n2", silent_ms=1))
    told = about(world, whole)
    assert (told.start_from_ms, told.start_to_ms) == (None, None)
    assert told.start_note == (
        "Nobody can tell: 1 node of the pool takes no work now, and without it there may never be enough."
    )
    # Who needs no more than the node that works starts there; from a lost one comes the job that ran, and goes first.
    assert about(world, one).start_to_ms == (T0 if why == "drained" else T0 + 3600 * SECOND)


def test_nobody_pretends_to_know_when_an_endless_job_ends():
    world = World(node())
    world.submit_running(spec(gpus=8), "n1")
    told = about(world, world.submit(gpus=1))
    assert (told.start_from_ms, told.start_to_ms, told.confidence) == (None, None, "")
    assert "a running job has neither a time limit nor an estimate" in told.start_note


def test_estimates_give_a_start_with_less_confidence():
    world = World(node())
    world.submit_running(spec(gpus=8, estimate_s=1000), "n1")
    told = about(world, world.submit(gpus=1))
    assert (told.start_from_ms, told.start_to_ms) == (T0 + 500 * SECOND, T0 + 2000 * SECOND)
    assert told.confidence == "medium"


def test_recent_run_times_stand_in_for_limits_and_estimates():
    world = World(node())
    for k in range(8):
        ended = world.submit_running(spec(gpus=1), "n1")
        world.wait(100 + k)
        world.finish(ended)
    world.submit_running(spec(gpus=8), "n1")
    told = about(world, world.submit(gpus=8))
    assert (told.start_from_ms, told.start_to_ms) == (world.at + 102 * SECOND, world.at + 107 * SECOND)
    assert told.confidence == "low"


def test_a_running_job_that_outlasts_all_others_is_expected_to_go_on_as_long_again():
    world = World(node())
    for _ in range(8):
        ended = world.submit_running(spec(gpus=1), "n1")
        world.wait(100).finish(ended)
    world.submit_running(spec(gpus=8), "n1")
    world.wait(1000)
    told = about(world, world.submit(gpus=8))
    assert (told.start_from_ms, told.start_to_ms) == (world.at, world.at + 1000 * SECOND)


def test_a_reserved_job_starts_no_later_than_its_reservation():
    world = World(node())
    world.submit_running(spec(gpus=6, time_limit_s=100), "n1")
    job = world.submit(gpus=8)
    reservation = f.Reservation(job=job, start_ms=T0 + 100 * SECOND, tasks=())
    decide(world, reservations=(reservation,))
    told = about(world, job)
    assert (told.start_to_ms, told.confidence) == (T0 + 100 * SECOND, "high")
    assert "reserved" in told.start_note
    world.submit_running(spec(gpus=1), "n1")
    decide(world, reservations=(reservation,))
    assert about(world, job).confidence == "medium"


def test_a_date_after_all_ends_that_are_known_is_said_to_be_a_guess():
    world = World(node())
    world.submit_running(spec(gpus=6, time_limit_s=100), "n1")
    world.submit_running(spec(gpus=2), "n1")
    job = world.submit(gpus=8)
    world.settle()
    told = about(world, job)
    assert (told.confidence, told.start_to_ms) == ("low", T0 + 24 * HOUR)
    assert "The date is a guess: nobody knows when 1 running job will end." in told.start_note


def test_room_that_is_being_cleared_comes_with_the_victims_grace():
    world = World(node())
    victim = world.submit_running(spec(gpus=8, grace_s=60), "n1")
    job = world.submit(gpus=8)
    claim = f.Claim(
        job=job,
        placement=f.Placement(job=job, attempt=1, tasks=()),
        victims=world.job(victim).tasks,
        made_ms=world.at,
    )
    decide(world, evictions=(f.Eviction(job=victim, beneficiary=job, rule="priority"),), claims=(claim,))
    told = about(world.wait(10), job)
    assert told.code == ReasonCode.WAITING_FOR_VICTIMS
    assert (told.start_from_ms, told.start_to_ms) == (world.at, T0 + 65 * SECOND)
    assert told.confidence == "high"


def test_a_job_behind_its_groups_limit_waits_for_its_groups_jobs():
    world = World(node(), groups=[group("a", limit=gpu_amount(4))])
    world.submit_running(spec(gpus=4, group="a", time_limit_s=500), "n1")
    told = about(world, world.submit(gpus=4, group="a"))
    assert told.code == ReasonCode.GROUP_LIMIT
    assert told.start_to_ms == T0 + 500 * SECOND
    assert told.confidence == "low"


def test_a_job_that_a_lowered_limit_is_too_small_for_is_told_to_wait_for_the_limit():
    world = World(node(), groups=[group("a", limit=gpu_amount(8))])
    world.submit_running(spec(gpus=4, group="a", time_limit_s=3600), "n1")
    job = world.submit(gpus=6, group="a")
    assert about(world, job).start_to_ms == T0 + 3600 * SECOND
    world.tell("admission", f.GroupSet(group=group("a", limit=gpu_amount(4)), by="admin"))
    told = about(world, job)
    assert (told.start_from_ms, told.start_to_ms) == (None, None)
    assert told.start_note == "Nobody can tell: it asks for more than the limit, and starts when that is larger."


def test_a_follower_starts_after_the_job_it_follows():
    world = World(node())
    first = world.submit_running(spec(gpus=1, time_limit_s=700), "n1")
    told = about(world, world.submit(gpus=1, after=[Dependency(job=first)]))
    assert told.code == ReasonCode.DEPENDENCY
    assert told.start_to_ms == T0 + 700 * SECOND
    waiting = world.submit(gpus=1)
    assert about(world, world.submit(gpus=1, after=[waiting])).start_to_ms is None


def test_a_job_that_may_not_start_yet_is_expected_at_its_time():
    world = World(node())
    told = about(world, world.submit(gpus=1, not_before_ms=T0 + 50 * SECOND))
    assert (told.start_from_ms, told.start_to_ms) == (T0 + 50 * SECOND, T0 + 50 * SECOND)


def test_a_model_that_never_comes_back_makes_no_promise_and_stands_in_nobodys_way():
    world = World(node("n1"), node("h1", model="H100"))
    world.tell("admission", f.DrainSet(node="h1", drained=True, by="admin"))
    world.submit_running(spec(gpus=8, time_limit_s=100), "n1")
    never, soon = world.submit(gpus=8, gpu_models=["H100"]), world.submit(gpus=8)
    assert about(world, never).start_to_ms is None
    assert about(world, soon).start_to_ms == T0 + 100 * SECOND


def test_notes_tell_what_a_user_would_ask_next():
    world = World(node()).set_policy(starvation_s=60)
    for _ in range(3):
        ended = world.submit(gpus=8)
        world.wait(30).run(ended, "n1")
        world.finish(ended)
    victim = world.submit_running(spec(gpus=8), "n1")
    decide(world, evictions=(f.Eviction(job=victim, beneficiary=victim, rule="test"),))
    world.stop_all().wait(61)
    notes = " ".join(about(world, victim).notes)
    assert "longer than 60 s, so it goes before everything younger" in notes
    assert "Preempted 1 time" in notes
    assert "The last 3 ended jobs of this size waited 30 s (median)." in notes


# --- the whole queue ------------------------------------------------------------------------------------------


def test_an_empty_queue_is_empty():
    world = World(node())
    assert queue(world.state, "default", world.at) == []


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_waiting_job_has_one_line_a_true_reason_and_a_sensible_range(data):
    """O6: whatever waits, in whatever state, is explained, and the list and the single answer agree."""
    world = World(node("n1"), groups=[group("a", limit=gpu_amount(6)), group("b"), group("c", budget_gpu_hours=1)])
    if data.draw(st.booleans()):
        world.tell("accounting", f.BudgetExhausted(group="c", used_gpu_milli_ms=1))
    for k in range(data.draw(st.integers(1, 10))):
        job = world.submit(
            gpus=data.draw(st.integers(0, 4)),
            group=data.draw(st.sampled_from("abc")),
            time_limit_s=data.draw(st.sampled_from([0, 60, 600])),
            estimate_s=data.draw(st.sampled_from([0, 30])),
            after=[data.draw(st.integers(1, k))] if k and data.draw(st.booleans()) else [],
            not_before_ms=data.draw(st.sampled_from([0, T0 + 90 * SECOND])),
        )
        used = sum(world.state.use["n1"].gpu_milli) // 1000
        wanted = world.job(job).spec.roles[0].resources.whole_gpus
        if (
            data.draw(st.booleans())
            and used + wanted <= 8
            and Sieve(world.state, "default", world.at).verdicts().may[-1:] == [world.job(job)]
        ):
            world.run(job, "n1")
        world.wait(data.draw(st.integers(0, 40)))
    lines = queue(world.state, "default", world.at)
    assert sorted(line.job.id for line in lines) == sorted(world.state.waiting.get("default", {}))
    assert [line.position for line in lines] == list(range(1, len(lines) + 1))
    for line in lines:
        told = about(world, line.job.id)
        assert (told.reason, told.sentence, told.position) == (line.reason, line.sentence, line.position)
        assert "?" not in line.sentence
        assert sum(value for _, value in told.terms) == told.score == line.score
        assert line.start.note
        assert (line.start.from_ms is None) == (line.start.to_ms is None) == (line.start.confidence == "")
        if line.start.from_ms is not None and line.start.to_ms is not None:
            assert world.at <= line.start.from_ms <= line.start.to_ms
            assert line.start.confidence in CONFIDENCE.values()
    assert set(CONFIDENCE) == set(Basis)
    assert Book(world.state, "default", world.at).position == {line.job.id: line.position for line in lines}


def test_processors_are_told_as_they_are_asked_for():
    reason = Reason(ReasonCode.INSUFFICIENT_CPU, {"needed": 2000, "free": 1900})
    assert sentence(reason) == "Needs 2 CPUs per task; at most 1.9 are free where it could run."


def test_a_reserved_job_is_told_when_others_guarantees_go_before_it():
    for owed, is_told in ((0, False), (4, True)):
        groups = [group("lab"), group("owner", guaranteed=gpu_amount(owed) if owed else {})]
        world = World(node("n1"), groups=groups)
        world.submit_running(spec(gpus=4, group="lab", time_limit_s=600), "n1")
        large = world.submit(gpus=8, group="lab")
        world.round()
        told = explain(world.state, large, world.at)
        assert ("Groups that are owed a guarantee go before it" in told.start_note) == is_told
        assert (told.confidence == "high") != is_told


@pytest.mark.parametrize("hours", [0, 100])
def test_nobody_reads_that_a_budget_is_used_up_which_was_raised_or_dropped(hours):
    """Accounting has yet to say so; "2 of 100 GPU-hours" is not used up."""
    world = World(node(gpus=4), groups=[group("a", budget_gpu_hours=2)])
    world.submit_running(spec(gpus=2, group="a"), "n1")
    world.wait(3600).tell("accounting", *budget_changes(world.state, world.at))
    waits = world.submit(gpus=2, group="a")
    world.round()
    assert explain(world.state, waits, world.at).code == ReasonCode.BUDGET_EXHAUSTED
    world.tell("admission", f.GroupSet(group=group("a", budget_gpu_hours=hours), by="root"))
    assert explain(world.state, waits, world.at).code == ReasonCode.NOT_YET_CONSIDERED


def test_a_limit_of_which_a_part_of_a_gpu_is_used_is_told_as_such():
    world = World(node(gpus=4), groups=[group("a", limit=gpu_amount(1))])
    world.submit_running(spec(gpus=0.25, group="a"), "n1")
    waits = world.submit(gpus=1, group="a")
    world.round()
    told = explain(world.state, waits, world.at)
    assert (told.code, told.numbers["used"]) == (ReasonCode.GROUP_LIMIT, "0.25")


def test_one_task_that_lacks_one_cpu_is_told_of_as_one() -> None:
    world = World(node("n1", gpus=0, cpus=2))
    world.submit_running(spec(gpus=0, cpus=1), "n1")
    waits = world.submit(spec(gpus=0, cpus=1, tasks=2))
    world.settle()
    assert (
        explain(world.state, waits, world.at).shortfall.missing
        == "Room for 1 more task with 1 CPU would have to come free."
    )


def test_what_others_say_of_a_failed_start_ends_with_one_full_stop() -> None:
    def told(error: str) -> str:
        return sentence(Reason(ReasonCode.START_FAILED, {"task": "1-1-worker-0", "error": error}))

    assert told("leave them out.").endswith("leave them out.")
    assert told("no such file").endswith("no such file.")
    assert told("and so on ...").endswith("and so on ...")


def test_who_is_no_member_reads_what_makes_him_one() -> None:
    assert "`gangline quota user GROUP USER --create`" in hint(Reason(ReasonCode.UNKNOWN_USER), job=0)


def test_who_had_to_make_way_reads_what_the_rule_means() -> None:
    for code in (ReasonCode.PREEMPTED, ReasonCode.PAUSED_FOR):
        told = sentence(Reason(code, {"job": 3, "rule": "yield"}))
        assert "job 3 (yield: of jobs that checkpoint, who had less GPU time or needs less still goes first)" in told
    assert "(a rule of its own)" in sentence(Reason(ReasonCode.PREEMPTED, {"job": 3, "rule": "a rule of its own"}))


def test_every_rule_by_which_jobs_make_way_is_explained() -> None:
    known = {BY_CLASS, BY_PRIORITY, BY_GUARANTEE, BY_SERVICE, BY_SLICE, BY_SWITCH, BY_LEASE, BY_YIELD, PACKING}
    assert known == set(RULES)
