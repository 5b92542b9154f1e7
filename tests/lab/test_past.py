"""The past is explained from the log alone, and lived again under a change with the same jobs and durations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.lab.busy_cluster import BusyCluster
from tests.lab.logged import LoggedWorld
from tests.lab.simulated import FIFO, record, trace
from tests.lab.test_guests import HALF, with_low
from tests.lab.test_sharing import staged
from tests.make import node, spec

from gangline_core import cycle, parsync
from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.door import admission
from gangline_core.door.edits import JobEdit
from gangline_core.groups import Group
from gangline_core.ids import JobId, NodeId
from gangline_core.spec import ArraySpec, Dependency
from gangline_lab.audit import Yielding, preemptions
from gangline_lab.cli import main
from gangline_lab.past_words import audit_lines, why_lines
from gangline_lab.readers.archives import read_history
from gangline_lab.replay import replay
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import Scenario, simulate
from gangline_lab.sim.fleet import added, read_fleet
from gangline_lab.sim.workload import Workload, as_opportunistic, cut, with_checkpoints, with_memory_most
from gangline_lab.whatif import Change, what_if
from gangline_lab.whatif_words import answer_lines
from gangline_lab.why import CAME_LATE, How, UnknownJobError, why
from gangline_lab.words import duration


def urgent(jobs: Workload, place: int, priority: int) -> Workload:
    arrivals = list(jobs.arrivals)
    arrivals[place] = replace(arrivals[place], spec=replace(arrivals[place].spec, priority=priority))
    return replace(jobs, arrivals=tuple(arrivals))


def test_why_names_who_went_before_and_by_which_rule(tmp_path: Path) -> None:
    jobs = urgent(trace((0, 4, 100), (10, 4, 50), (20, 4, 30)), 2, 7)
    archive = record(tmp_path / "a", jobs, Policy(ordering="priority", preemption=False))
    told = why(archive, JobId(2))
    assert told.rounds
    assert {round.code for round in told.rounds} == {"NO_ROOM"} or all(round.code for round in told.rounds)
    ahead = [one for round in told.rounds for one in round.ahead]
    assert [(one.job, one.how) for one in ahead] == [(3, How.SCORE)]
    assert told.rounds[0].terms == {"level": 0, "priority": 0}


def test_why_names_nobody_whose_placement_no_longer_held_when_it_was_folded(tmp_path: Path) -> None:
    """The machine is lost between the decision and its append: who was placed there went before nobody."""
    world = LoggedWorld(node("n1", gpus=1), node("n2", gpus=1))
    first, second = (world.submit(spec(gpus=1, name=name)) for name in "ab")
    world.tell("queue.default", *filter(None, [cycle.open_round(world.state, "default", world.at)]))
    decided, seen = cycle.decide_round(world.state, "default", world.at), world.state.kept.seq
    lost = next(one.tasks[0].node for one in decided.placements if one.job == first)
    world.tell("telemetry", f.NodeLost(node=lost, silent_ms=30_000))
    world.tell("placement.default", decided, seq_seen=seen)
    (one,) = why(world.write(tmp_path / "a"), first).rounds
    assert [ahead.job for ahead in one.ahead] == [second]
    assert one.passed == ()


def test_why_names_whom_another_scheduler_started_in_its_share_of_the_round(tmp_path: Path) -> None:
    world = LoggedWorld(node("n1", gpus=2))
    world.set_policy(schedulers=2, ordering="fifo", backfill_depth=0)
    early, late, wide = world.submit(spec(gpus=1)), world.submit(spec(gpus=1)), world.submit(spec(gpus=2))
    world.tell("queue.default", *filter(None, [cycle.open_round(world.state, "default", world.at)]))
    seen = world.state.kept.seq
    shares = {k: parsync.decide_share(world.state, "default", k) for k in parsync.asked(world.state, "default")}
    for number, share in sorted(shares.items()):
        world.tell(f"scheduler.default.{number}", *filter(None, [share]), seq_seen=seen)
    decided = cycle.decide_round(world.state, "default", world.at)
    world.tell("placement.default", decided)
    (one,) = why(world.write(tmp_path / "a"), wide).rounds
    by_share = {early, late} - {placement.job for placement in decided.placements}
    assert by_share
    assert {ahead.job for ahead in one.ahead} == {early, late}
    assert one.passed == ()


def test_why_of_a_job_that_lost_its_share_of_the_round_again_does_not_name_itself(tmp_path: Path) -> None:
    world = LoggedWorld(node("n1", gpus=1))
    world.set_policy(schedulers=2, ordering="fifo")
    job = world.submit(spec(gpus=1))
    world.tell("queue.default", *filter(None, [cycle.open_round(world.state, "default", world.at)]))
    (number,) = parsync.asked(world.state, "default")
    share = parsync.decide_share(world.state, "default", number)
    world.tell(f"scheduler.default.{number}", *filter(None, [share]))
    world.tell("telemetry", f.NodeLost(node=NodeId("n1"), silent_ms=30_000))
    world.tell("placement.default", cycle.decide_round(world.state, "default", world.at))
    (one,) = why(world.write(tmp_path / "a"), job).rounds
    assert one.ahead == ()


def test_why_of_a_job_that_never_was_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownJobError, match="no job 9"):
        why(record(tmp_path / "a", trace((0, 1, 5))), JobId(9))


def test_an_audit_shows_both_sides_and_decides_the_same_again(tmp_path: Path) -> None:
    jobs = urgent(trace((0, 4, 100), (40, 4, 50)), 1, 5)
    (one,) = preemptions(record(tmp_path / "a", jobs, Policy(ordering="priority")))
    assert (one.victim.job, one.beneficiary.job, one.rule, one.lost_ms) == (1, 2, "priority", 40_000)
    assert one.decided_again
    assert one.beneficiary.priority - one.victim.priority == 5
    assert one.victim_gone_ms <= one.beneficiary_started_ms < one.victim_started_again_ms


class Lagging(BusyCluster):
    """Between a decision and its append tasks start and end, as on every busy platform."""

    inside = False

    def decide(self, lane: str, decision: Callable[[], tuple[f.Fact, ...]]) -> bool:
        if self.inside or not lane.startswith("placement"):
            return super().decide(lane, decision)
        seen, facts, at = self.state.kept.seq, decision(), self.at
        self.inside = True
        if self.random.random() < 0.5:
            self.begin()
        if self.random.random() < 0.6:
            self.end()
        self.inside = False
        self.tell(lane, *facts, at=at, seq_seen=seen)
        return True


def test_an_audit_looks_at_the_state_on_which_was_decided_whatever_came_before_the_append(tmp_path: Path) -> None:
    found = preemptions(Lagging(4).live(60).write(tmp_path / "a", segment_messages=1000))
    assert found
    assert replay(tmp_path / "a").equal
    assert any(one.seq_seen < one.seq - 1 for one in found)
    assert all(one.decided_again for one in found)
    assert [one.number for one in found] == list(range(1, len(found) + 1))


def test_an_audit_names_who_else_could_have_gone_by_which_rule_and_why_the_others_could_not(tmp_path: Path) -> None:
    """The job of 2 GPUs of high priority takes the one of priority 0 that lost least; an equal one cannot go."""
    jobs = urgent(urgent(trace((0, 1, 100), (10, 1, 100), (20, 2, 100), (40, 1, 50)), 2, 5), 3, 5)
    (one,) = preemptions(record(tmp_path / "a", jobs, Policy(ordering="priority")))
    assert (one.victim.job, one.beneficiary.job) == (2, 4)
    assert [(other.party.job, other.rule) for other in one.others] == [(1, "priority"), (3, "")]
    assert (one.others[0].lost_ms, one.others[0].nodes) == (40_000, ("node-00000",))
    assert one.others[1].why_not == "its priority 5 is not below 5, and no other rule applied"
    text = "\n".join(audit_lines(one))
    assert "Others that could have gone" in text
    assert "level normal, priority 5" in text
    assert ": 1 GPU, burstable" in text
    assert "1 GPUs" not in text


def test_an_audit_of_who_makes_way_shows_what_the_rule_looked_at(tmp_path: Path) -> None:
    """The first had 4 GPUs for 100 s, and its share is 300 GPU-seconds."""
    policy = Policy(yield_after_gpu_s=300, yield_run_s=60, yield_wait_s=7200)
    jobs = with_checkpoints(trace((0, 4, 1000), (100, 4, 50)))
    (one,) = preemptions(record(tmp_path / "a", jobs, policy))
    assert (one.rule, one.victim.job, one.victim.had_gpu_s, one.beneficiary.had_gpu_s) == ("yield", 1, 400, 0)
    # Its estimate leaves it 3,600 GPU-seconds: twelve shares.
    assert one.yielding == Yielding(after_gpu_s=300, run_s=60, patience_s=7200, victim_queue=4, beneficiary_queue=0)
    text = "\n".join(audit_lines(one))
    assert (
        "it had 400 GPU-seconds and stood in queue 4, job 2 had 0 and stood in queue 0: who had 300 makes way" in text
    )
    assert "its run had lasted 1 min 40 s (one of 1 min 0 s is left alone); it had waited 0 ms in all" in text


def test_an_audit_of_a_guest_names_the_owner_with_whom_it_goes(tmp_path: Path) -> None:
    """The guest came after 100 s, and goes when its owner is evicted after 200 s: each loses its own run."""
    jobs = staged(trace((0, 4, 900), (100, 4, 900), (200, 4, 100)), HALF, HALF, HALF)
    jobs = as_opportunistic(with_memory_most(with_low(urgent(jobs, 2, 5), 1), 8_192))
    policy = Policy(ordering="priority", sharing="guests")
    found = preemptions(record(tmp_path / "a", jobs, policy))
    assert [(one.victim.job, one.victim.own_priority, one.lost_ms) for one in found] == [
        (1, 0, 200_000),
        (2, 0, 100_000),
    ]
    text = "\n".join(audit_lines(found[1]))
    assert "It is a guest on the GPUs of job 1" in text
    assert "1 min 40 s of run time counted as lost" in text


def test_why_says_that_a_job_came_when_the_round_was_in_order_already(tmp_path: Path) -> None:
    """The round was put in order before the second job came; none was preferred to it."""
    world = LoggedWorld(node("n1", gpus=4))
    world.submit(spec("first", gpus=4))
    seen = world.state.kept.seq
    late = world.submit(spec("late", gpus=4))
    opened = f.RoundOpened(pool="default", round=1, candidates=(f.Candidate(job=JobId(1), score=0),), waiting=1)
    world.tell("queue.default", opened, seq_seen=seen)
    world.tell("placement.default", f.RoundDecided(pool="default", round=1))
    told = why(world.write(tmp_path / "a"), late)
    assert [(one.place, one.ahead, one.reason) for one in told.rounds] == [(0, (), CAME_LATE)]


def test_history_without_a_change_comes_out_as_it_was(tmp_path: Path) -> None:
    jobs = trace((0, 4, 100), (10, 4, 50), (20, 2, 30), groups=("a", "b", "b"))
    answer = what_if(read_history(record(tmp_path / "a", jobs)), Change(without="nobody"), varied=0)
    assert (answer.better, answer.worse, answer.differs_first) == (0, 0, -1)
    assert answer.simulated_wait_s == answer.recorded_wait_s > 0
    assert "is not known of one run: --varied says it." in "\n".join(answer_lines(answer))


def test_more_machines_shorten_waits(tmp_path: Path) -> None:
    history = read_history(record(tmp_path / "a", trace((0, 4, 100), (10, 4, 50), (20, 4, 30))))
    answer = what_if(history, Change(nodes=added(read_fleet("1x4"), "+4xV100").nodes[1:]), varied=2)
    assert answer.better == 2
    assert answer.parts[0].wait_change.mean < 0
    assert answer.parts[0].wait_change.runs == 3
    everybody = answer.parts[0]
    assert everybody.wait_after < everybody.wait_before
    row = next(line for line in answer_lines(answer) if line.startswith("everybody"))
    assert duration(1000 * everybody.wait_after) in row


def test_the_others_without_a_group(tmp_path: Path) -> None:
    jobs = trace((0, 4, 100), (10, 4, 50), (20, 4, 30), groups=("a", "b", "b"))
    answer = what_if(read_history(record(tmp_path / "a", jobs)), Change(without="a"), varied=0)
    assert [part.name for part in answer.parts] == ["everybody", "b"]
    assert answer.better == 2


def test_the_answer_says_which_sizes_and_lengths_gain_and_lose(tmp_path: Path) -> None:
    """Four hours of work before two short jobs: shortest first helps the short ones, at the cost of the long one."""
    jobs = trace((0, 4, 60), (10, 4, 4 * 3600), (20, 1, 120), (30, 2, 120))
    change = Change(policies={"default": Policy(ordering="weighted", formula="-estimate_hours", preemption=False)})
    answer = what_if(read_history(record(tmp_path / "a", jobs)), change, varied=1)
    by_name = {part.name: part for part in answer.classes}
    assert set(by_name) == {"1 GPU", "2 GPUs", "3-4 GPUs", "up to 1 GPU-hour", "10-100 GPU-hours"}
    assert by_name["up to 1 GPU-hour"].jct_change.mean < -8_000
    assert by_name["10-100 GPU-hours"].jct_change.mean > 0
    assert by_name["up to 1 GPU-hour"].jobs == 3
    assert "10-100 GPU-hours" in "\n".join(answer_lines(answer))
    assert (answer.preemptions_before, answer.preemptions_after) == (0, 0)


def test_settings_of_the_past_that_a_page_leaves_out_are_named(tmp_path: Path) -> None:
    history = read_history(
        record(tmp_path / "a", trace((0, 4, 60)), Policy(ordering="fifo", starvation_s=7, lease_s=9))
    )
    answer = what_if(history, Change(policies={"default": Policy(ordering="priority", lease_s=9)}), varied=0)
    assert answer.change == ["policy of pool default: priority, and without the starvation_s that it had"]
    whole = what_if(history, Change(policies={"default": Policy(starvation_s=7, lease_s=9)}), varied=0)
    assert whole.change == ["policy of pool default: weighted, and without the ordering that it had"]


def test_another_quota(tmp_path: Path) -> None:
    jobs = trace((0, 2, 100), (0, 2, 100), groups=("a", "a"))
    change = Change(groups=(Group(path="a", limit={"gpu_milli": 2000}),))
    answer = what_if(read_history(record(tmp_path / "a", jobs)), change, varied=0)
    assert (answer.better, answer.worse) == (0, 1)


def logged(folder: Path, *steps: Callable[[LoggedWorld], object]) -> Path:
    """A log that people wrote by hand, decided by the core: each step, then everything that is due."""
    world = BusyCluster(0)
    for step in steps:
        step(world)
        world.settle()
        world.begin()
    return world.write(folder, segment_messages=1000)


def submit(name: str, **fields: Any) -> Callable[[LoggedWorld], object]:
    def act(world: LoggedWorld) -> object:
        asked = spec(name, group="a", user="ada", **fields)
        judged = admission.judge_submit(
            world.state, admission.Draft(), specs=[asked], submit_id=name, by="ada", trace="", at=world.at
        )
        return world.tell("admission", *judged.facts)

    return act


def test_a_hold_of_the_past_holds_again_and_who_is_held_for_ever_is_counted(tmp_path: Path) -> None:
    archive = logged(
        tmp_path / "a",
        submit("ran"),
        submit("held", hold=True),
        submit("kept", hold=True),
        lambda world: world.wait(3600),
        lambda world: world.finish(JobId(1)),
        lambda world: world.tell("admission", f.HoldSet(job=JobId(2), held=False, by="ada")),
        lambda world: world.wait(100),
        lambda world: world.finish(JobId(2)),
    )
    assert replay(archive).equal
    answer = what_if(read_history(archive), Change(nodes=added(read_fleet("1x4"), "+4xV100").nodes[1:]), varied=0)
    assert (answer.parts[0].jobs, answer.unfinished_before, answer.unfinished_after) == (2, 1, 1)
    assert answer.makespan_before_s == answer.makespan_after_s == pytest.approx(3700, abs=1)
    assert "Not over at the end of the simulated time: 1 job instead of 1" in "\n".join(answer_lines(answer))


def test_elements_of_an_array_are_jobs_of_history(tmp_path: Path) -> None:
    archive = logged(
        tmp_path / "a",
        submit("many", array=ArraySpec(ranges=((0, 3, 1),))),
        lambda world: world.wait(60),
        lambda world: world.finish(*(JobId(number) for number in (2, 3, 4, 5))),
    )
    history = read_history(archive)
    assert [(one.spec.name, one.spec.array, one.work.run_ms) for one in history.trace.arrivals] == [
        (f"many-{k}", None, 60_000) for k in range(4)
    ]
    assert what_if(history, Change(without="b"), varied=0).parts[0].jobs == 4


def test_history_is_lived_again_at_its_own_time_so_that_dates_mean_what_they_meant(tmp_path: Path) -> None:
    """A log of 2026 in which a job may start an hour after it came."""
    begin = 1_780_000_000_000
    jobs = trace((0, 1, 50), (0, 1, 50))
    late = replace(jobs.arrivals[1], spec=replace(jobs.arrivals[1].spec, not_before_ms=begin + 3_600_000))
    scenario = Scenario(
        trace=replace(jobs, arrivals=(jobs.arrivals[0], late)), fleet=read_fleet("1x4xV100"), begin_ms=begin
    )
    simulate(scenario, archive=tmp_path / "a")
    answer = what_if(read_history(tmp_path / "a"), Change(without="nobody"), varied=0)
    assert answer.makespan_before_s == 3650


def test_dependencies_follow_their_jobs_when_others_are_left_out(tmp_path: Path) -> None:
    jobs = trace((0, 1, 50), (1, 1, 100), (2, 1, 10), groups=("a", "b", "b"))
    last = replace(jobs.arrivals[2], spec=replace(jobs.arrivals[2].spec, after=(Dependency(job=2),)))
    archive = record(tmp_path / "a", replace(jobs, arrivals=(*jobs.arrivals[:2], last)))
    answer = what_if(read_history(archive), Change(without="a"), varied=0)
    assert (answer.parts[0].jobs, answer.untied) == (2, 0)
    assert answer.parts[0].jct_before == pytest.approx((100 + 109) / 2)
    assert answer.parts[0].jct_change.mean == 0
    gone = what_if(read_history(archive), Change(without="b"), varied=0)
    assert gone.parts[0].jobs == 1
    only_last = simulate(Scenario(trace=cut(read_history(archive).trace, first=2), fleet=read_fleet("1x4xV100")))
    assert (len(only_last.jobs), only_last.rejected, only_last.untied) == (1, 0, 1)


def test_whom_the_change_would_refuse_is_said_with_the_reason(tmp_path: Path) -> None:
    jobs = trace((0, 2, 100), (1, 1, 100), groups=("b", "b"))
    change = Change(groups=(Group(path="b", limit={"gpu_milli": 1000}),))
    answer = what_if(read_history(record(tmp_path / "a", jobs)), change, varied=0)
    assert [(one.number, one.name, one.code) for one in answer.refused] == [(0, "j0", "NeverFitsLimit")]
    assert answer.parts[0].jobs == 1
    assert "1 job would have been refused at the door (1 for NeverFitsLimit); the first: j0 (b): " in "\n".join(
        answer_lines(answer)
    )


def test_costs_of_a_policy_page_are_paid_on_both_sides_and_named(tmp_path: Path) -> None:
    history = read_history(record(tmp_path / "a", trace((0, 4, 100), (10, 4, 50))))
    change = Change(policies={"default": FIFO}, conditions=Conditions(start_s=600.0))
    answer = what_if(history, change, varied=0)
    assert (answer.better, answer.worse, answer.parts[0].wait_change.mean) == (0, 0, 0)
    assert "simulated on both sides with start_s 600" in answer.change


def test_windows_edits_and_removed_groups_of_the_past_are_lived_again(tmp_path: Path) -> None:
    archive = logged(
        tmp_path / "a",
        submit("first", gpus=4, preemptible=False),
        submit("second", gpus=4, preemptible=False),
        submit("third", gpus=4, preemptible=False),
        lambda world: world.tell("admission", f.JobEdited(job=JobId(3), edit=JobEdit(priority=9), by="ada")),
        lambda world: world.tell("admission", f.PricesSet(milli={"V100": 5}, by="root")),
        lambda world: world.tell("admission", f.GroupRemoved(path="b", by="root")),
        lambda world: world.wait(100),
        lambda world: world.finish(JobId(1)),
        lambda world: world.wait(100),
        lambda world: world.finish(JobId(3)),
        lambda world: world.wait(100),
        lambda world: world.finish(JobId(2)),
    )
    history = read_history(archive)
    assert {f.JobEdited, f.PricesSet, f.GroupRemoved} <= {type(told.fact) for told in history.inputs}
    answer = what_if(history, Change(without="nobody"), varied=0)
    assert answer.simulated_wait_s == answer.recorded_wait_s > 0


def test_why_says_no_rule_about_the_order_of_a_job_that_was_kept_out_or_kept_by_a_limit(tmp_path: Path) -> None:
    """Group a may hold 6 GPUs: its second job of 4 waits for the limit, while b's starts beside it."""
    archive = logged(
        tmp_path / "a",
        submit("first", gpus=4, preemptible=False),
        submit("second", gpus=4, preemptible=False),
        submit("later", gpus=1, preemptible=False),
        lambda world: world.wait(100),
        lambda world: world.finish(JobId(1)),
    )
    told = why(archive, JobId(2))
    assert {one.code for one in told.rounds} == {"GroupLimit"}
    assert {one.how for each in told.rounds for one in each.ahead} <= {How.BARRED, How.KEPT_OUT}
    text = "\n".join(why_lines(told))
    assert "found room" not in text
    assert "higher score" not in text
    assert "(GroupLimit)" in text


def test_why_tells_times_on_hold_and_speaks_of_arrays(tmp_path: Path) -> None:
    archive = logged(
        tmp_path / "a",
        submit("held", hold=True),
        submit("many", array=ArraySpec(ranges=((0, 3, 1),))),
        lambda world: world.wait(3600),
        lambda world: world.tell("admission", f.HoldSet(job=JobId(1), held=False, by="ada")),
    )
    assert "It was on hold from 2023-11-14 22:13:20 until 2023-11-14 23:13:20, 1 h 0 min." in why_lines(
        why(archive, JobId(1))
    )
    with pytest.raises(
        UnknownJobError, match="is an array; ask for one of its elements, such as 2_0; its indexes are 0-3"
    ):
        why(archive, JobId(2))


def test_an_element_is_asked_for_as_people_write_it_and_called_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = logged(
        tmp_path / "a",
        submit("one", gpus=3),
        submit("many", array=ArraySpec(ranges=((5, 7, 1),)), gpus=3),
        lambda world: world.wait(100),
    )
    assert main(["why", str(archive), "2_7"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Job 2_7 many, now waiting")
    told = why(archive, JobId(2), index=7)
    assert (told.job, told.written) == (5, "2_7")
    assert why(archive, JobId(5)) == told
    assert {one.written for each in told.rounds for one in each.ahead} <= {"1", "2_5"}
    with pytest.raises(UnknownJobError, match="array 2 has no element 9; its indexes are 5-7"):
        why(archive, JobId(2), index=9)
    with pytest.raises(UnknownJobError, match="the archive has no array 7"):
        why(archive, JobId(7), index=0)


@pytest.mark.parametrize("word", ["-1", "1_", "0x1", "1_2_3", "", "٣", "many"])
def test_what_is_no_number_of_a_job_is_not_taken_for_one(word: str, tmp_path: Path) -> None:
    archive = str(logged(tmp_path / "a", submit("one")))
    with pytest.raises(SystemExit) as ended:
        main(["why", archive, "--", word])
    assert ended.value.code == 2


def test_the_commands_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = urgent(trace((0, 4, 100), (40, 4, 50)), 1, 5)
    archive = str(record(tmp_path / "a", jobs, Policy(ordering="priority")))
    assert main(["why", archive, "1"]) == 0
    assert main(["audit", archive]) == 0
    assert main(["audit", archive, "1"]) == 0
    assert main(["audit", archive, "2"]) == 2
    assert main(["what-if", archive, "--nodes", "+4xV100", "--varied", "0"]) == 0
    assert main(["what-if", archive]) == 2
    out = capsys.readouterr().out
    assert "1 job would have waited less" in out
    assert "for job 2 (all), rule priority, lost 40.0 s" in out
