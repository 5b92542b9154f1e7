"""What was decided is decided again, byte for byte, by whoever reads the log."""

from msgspec.structs import replace
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import cycle, elasticity
from gangline_core import facts as f
from gangline_core.door import admission
from gangline_core.groups import Group
from gangline_core.job import JobState
from gangline_core.limits import accounting
from gangline_core.redecide import DECISIONS, redecide


def judged(world: World, *specs, submit_id: str = "s1", by: str = "ada") -> tuple[f.Fact, ...]:
    judgement = admission.judge_submit(
        world.state, admission.Draft(), specs=list(specs), submit_id=submit_id, by=by, trace="", at=world.at
    )
    return judgement.facts


def test_rounds_are_opened_and_decided_again():
    world = World(node("n1"))
    for k in range(5):
        world.submit(gpus=1 + k, priority=k)
    opened = cycle.open_round(world.state, "default", world.at)
    assert redecide(world.state, "queue.default", (opened,), world.at) == (opened,)
    world.tell("queue.default", opened)
    decided = cycle.decide_round(world.state, "default", world.at)
    later = world.at + 5_000
    assert redecide(world.state, "placement.default", (decided,), later) == (decided,), "the round's own time counts"


def test_a_changed_decision_is_seen():
    world = World(node("n1"))
    world.submit(gpus=1)
    world.tell("queue.default", cycle.open_round(world.state, "default", world.at))
    decided = cycle.decide_round(world.state, "default", world.at)
    forged = replace(decided, placements=())
    assert redecide(world.state, "placement.default", (forged,), world.at) != (forged,)


def test_sizes_and_charges_are_worked_out_again():
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1, tasks=1, minimum=1, maximum=4), "n1")
    proposals = elasticity.propose(world.state, "default", world.at)
    assert proposals
    assert redecide(world.state, "elastic.default", proposals, world.at) == proposals
    world.wait(60).finish(job)
    charges = accounting.charge(world.state, world.at)
    assert charges
    assert redecide(world.state, "accounting", charges, world.at) == charges


def test_jobs_are_judged_again_and_settings_pass_through():
    world = World(node("n1"), groups=[group("a", limit=gpu_amount(4))])
    good = judged(world, spec("x", gpus=1, group="a"), spec("", gpus=2, group="a"), submit_id="one")
    bad = judged(world, spec("y", gpus=9, group="a"), submit_id="two")
    assert [type(fact) for fact in (*good, *bad)] == [f.JobAdmitted, f.JobAdmitted, f.JobRejected]
    act = f.CancelRequested(job=good[0].job, by="ada")
    setting = f.GroupSet(group=Group(path="b"), by="admin")
    facts = (*good, act, *bad, setting)
    assert redecide(world.state, "admission", facts, world.at) == facts


def test_a_job_admitted_against_the_rules_is_seen():
    world = World(node("n1"))
    [admitted] = judged(world, spec("x", gpus=1))
    too_large = replace(admitted, spec=replace(admitted.spec, roles=spec(gpus=99).roles))
    assert redecide(world.state, "admission", (too_large,), world.at) != (too_large,)


def test_what_names_a_refused_request_is_judged_again_with_it():
    world = World(node("n1"), groups=[group("a", limit=gpu_amount(4))])
    asked = {"specs": [spec("y", gpus=9, group="a")], "submit_id": "key:1", "by": "ada", "trace": ""}
    bad = admission.judge_submit(world.state, admission.Draft(), **asked, at=world.at, ask="first").facts
    assert [fact.ask for fact in bad] == ["first"]
    assert redecide(world.state, "admission", bad, world.at) == bad


def test_a_refused_request_of_which_only_a_part_is_written_passes_through():
    world = World(node("n1"))
    facts = judged(world, spec("x", gpus=1), spec("x", gpus=1))
    assert [(type(fact), fact.of) for fact in facts] == [(f.JobRejected, 2)]
    assert redecide(world.state, "admission", facts, world.at) == facts


def test_what_was_seen_in_the_world_is_input():
    world = World(node("n1"))
    assert redecide(world.state, "agent.sim", (f.NodeSeen(node=node("n2")),), world.at) is None
    assert redecide(world.state, "telemetry", (), world.at) is None


def test_a_new_leaders_first_word_is_no_decision():
    world = World(node("n1"))
    taken = (f.LeadershipTaken(holder="q-1"),)
    for lane in DECISIONS:
        assert redecide(world.state, f"{lane}.default", taken, world.at) == taken


def test_a_decision_without_an_open_round_is_none():
    world = World(node("n1"))
    job = world.submit()
    assert redecide(world.state, "placement.default", (), world.at) == ()
    assert world.job(job).state == JobState.WAITING
