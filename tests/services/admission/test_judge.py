"""Every request at the door has one answer, and only a granted one leaves facts."""

from typing import Any, get_args

import pytest
from msgspec.structs import replace
from tests.make import T0, World, group, node, spec

from gangline_admission.judge import JUDGES, judge
from gangline_admission.verdict import Verdict
from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.door.draft import Draft
from gangline_core.groups import Group, Token, User
from gangline_core.reasons import ReasonCode
from gangline_wire import requests as r


def world() -> World:
    return World(
        node("n1", gpus=4), groups=[group("lab", limit={"gpu_milli": 4000})], users=[User(name="ann", group="lab")]
    )


def asked(place: World, request: r.Request) -> Verdict:
    return judge(place.state, Draft(), request, T0 + 1)


def submit(*, gpus: int, dry_run: bool = False, submit_id: str = "s") -> r.SubmitJobs:
    wanted = spec(group="lab", user="ann", gpus=gpus)
    return r.SubmitJobs(jobs=(wanted,), submit_id=submit_id, by="ann", secrets=({"KEY": "v"},), dry_run=dry_run)


def test_every_request_that_may_be_sent_has_somebody_who_judges_it() -> None:
    assert set(JUDGES) == set(get_args(r.Request))


def test_an_admitted_job_has_a_number_a_fact_and_its_sealed_values() -> None:
    verdict = asked(world(), submit(gpus=1))
    assert verdict.reply == r.Admitted(jobs=(1,))
    assert [type(fact) for fact in verdict.facts] == [f.JobAdmitted]
    assert verdict.secrets == {1: {"KEY": "v"}}


def test_a_refused_submit_names_the_job_and_the_number_that_is_too_large() -> None:
    verdict = asked(world(), submit(gpus=5))
    assert isinstance(verdict.reply, r.Refused)
    (refusal,) = verdict.reply.refusals
    assert (refusal.index, refusal.reason.numbers["needed"]) == (0, 5)
    assert [type(fact) for fact in verdict.facts] == [f.JobRejected]
    assert not verdict.secrets


def test_a_dry_run_answers_the_same_and_leaves_nothing() -> None:
    place = world()
    for gpus in (1, 5):
        real, dry = asked(place, submit(gpus=gpus)), asked(place, submit(gpus=gpus, dry_run=True))
        assert type(dry.reply) is type(real.reply)
        assert dry.facts == ()
        assert not dry.secrets


def test_the_same_key_again_gives_the_first_answer_and_admits_nothing() -> None:
    place = world()
    first = asked(place, submit(gpus=1))
    place.tell("admission", *first.facts)
    again = asked(place, submit(gpus=1))
    assert again.reply == r.Admitted(jobs=(1,), repeated=True)
    assert again.facts == ()


def test_a_copy_of_a_refused_request_is_refused_though_it_would_be_taken_by_now() -> None:
    place = world()
    request = replace(submit(gpus=5), ask="this one")
    refused = asked(place, request)
    assert isinstance(refused.reply, r.Refused)
    place.tell("admission", *refused.facts)
    copy = asked(place, replace(submit(gpus=1), ask="this one"))
    assert isinstance(copy.reply, r.Denied)
    assert (copy.reply.kind, copy.facts, copy.secrets) == ("conflict", (), {})
    assert asked(place, replace(submit(gpus=1), ask="another one")).reply == r.Admitted(jobs=(1,))


def test_an_ended_or_unknown_job_is_neither_cancelled_nor_held() -> None:
    place = world()
    job = place.submit(spec(group="lab", user="ann"))
    assert asked(place, r.CancelJob(job=job, by="ann")).facts == (f.CancelRequested(job=job, by="ann"),)
    place.cancel(job)
    for request in (r.CancelJob(job=job, by="ann"), r.SetHold(job=job, held=True, by="ann")):
        reply = asked(place, request).reply
        assert isinstance(reply, r.Denied)
        assert (reply.kind, reply.message) == ("conflict", f"job {job} has ended already (cancelled)")
    for request in (r.CancelJob(job=99, by="ann"), r.SetHold(job=99, held=True, by="ann")):
        reply = asked(place, request).reply
        assert isinstance(reply, r.Denied)
        assert reply.kind == "not_found"


def test_holding_what_is_held_changes_nothing() -> None:
    place = world()
    job = place.submit(spec(group="lab", user="ann"))
    held = asked(place, r.SetHold(job=job, held=True, by="ann"))
    assert held.facts == (f.HoldSet(job=job, held=True, by="ann"),)
    place.tell("admission", *held.facts)
    assert asked(place, r.SetHold(job=job, held=True, by="ann")) == Verdict(reply=r.Done())


def test_whoever_edits_an_old_version_is_told_the_present_one() -> None:
    place = world()
    edited = asked(place, r.SetGroup(group=Group(path="lab", weight=2), by="root", if_version=0))
    assert edited.reply == r.Done(version=1)
    place.tell("admission", *edited.facts)
    late = asked(place, r.SetGroup(group=Group(path="lab", weight=3), by="root", if_version=0))
    assert isinstance(late.reply, r.Denied)
    assert (late.reply.kind, late.facts) == ("conflict", ())
    assert "version is 1" in late.reply.message


def test_a_policy_that_names_nothing_known_is_refused_whole() -> None:
    bad = asked(world(), r.SetPolicy(pool="default", policy=Policy(formula="nonsense + 1"), by="root"))
    assert isinstance(bad.reply, r.Denied)
    assert "nonsense" in bad.reply.message
    assert bad.facts == ()
    assert isinstance(asked(world(), r.SetPolicy(pool="nowhere", policy=Policy(), by="root")).reply, r.Denied)


def test_draining_a_drained_node_is_done_already_and_an_unknown_one_is_not_found() -> None:
    place = world()
    drained = asked(place, r.SetDrain(node="n1", drained=True, by="root", why="fan"))
    assert drained.facts == (f.DrainSet(node="n1", drained=True, by="root", why="fan"),)
    place.tell("admission", *drained.facts)
    assert asked(place, r.SetDrain(node="n1", drained=True, by="root")) == Verdict(reply=r.Done())
    assert isinstance(asked(place, r.SetDrain(node="n9", drained=True, by="root")).reply, r.Denied)


def test_only_a_known_token_can_be_revoked() -> None:
    place = world()
    token = Token(digest="ab" * 32, name="ci", role="user", user="ann")
    place.tell("admission", *asked(place, r.IssueToken(token=token, by="root")).facts)
    assert asked(place, r.RevokeToken(digest=token.digest, by="root")).facts
    assert isinstance(asked(place, r.RevokeToken(digest="cd" * 32, by="root")).reply, r.Denied)


def test_a_refusal_of_a_user_says_which_user_of_which_group() -> None:
    request = r.SubmitJobs(jobs=(spec(group="lab", user="bob"),), submit_id="s", by="bob")
    reply = asked(world(), request).reply
    assert isinstance(reply, r.Refused)
    assert reply.refusals[0].reason.code == ReasonCode.UNKNOWN_USER


def test_a_node_is_assigned_to_a_pool_that_exists() -> None:
    place = world()
    unknown = asked(place, r.AssignNode(node="n1", pool="nowhere", by="root"))
    assert isinstance(unknown.reply, r.Denied)
    assert "nowhere" in unknown.reply.message
    assert isinstance(asked(place, r.AssignNode(node="n9", pool="default", by="root")).reply, r.Denied)
    assert asked(place, r.AssignNode(node="n1", pool="default", by="root")) == Verdict(reply=r.Done())
    assert asked(place, r.AssignNode(node="n1", pool="", by="root")) == Verdict(reply=r.Done())


def test_resuming_a_node_ends_its_quarantine() -> None:
    place = world()
    place.tell("telemetry", f.NodeQuarantined(node="n1", problem="the starts of 3 different jobs failed at once here"))
    lifted = asked(place, r.SetDrain(node="n1", drained=False, by="root"))
    assert lifted.facts == (f.DrainSet(node="n1", drained=False, by="root"),)
    place.tell("admission", *lifted.facts)
    assert place.state.kept.nodes["n1"].takes_work
    assert asked(place, r.SetDrain(node="n1", drained=False, by="root")) == Verdict(reply=r.Done())


@pytest.mark.parametrize(
    "beyond",
    [
        {"time_limit_s": 10**19},
        {"priority": -(10**9)},
        {"tasks": 10**9},
        {"tasks": 1, "maximum": 10**9},
        {"cpus": 9_223_372_036_854_775},
        {"devices": {"rdma": 10**12}},
        {"retries": 10**6},
        {"not_before_ms": 1 << 60},
    ],
)
def test_what_cannot_be_counted_with_never_comes_into_the_log(beyond: dict[str, Any]) -> None:
    # Objects of clusters become specs without the job file's reader, so the door looks itself.
    request = r.SubmitJobs(jobs=(spec(group="lab", user="ann", **beyond),), submit_id="s", by="ann")
    verdict = asked(world(), request)
    assert isinstance(verdict.reply, r.Denied)
    assert (verdict.reply.kind, verdict.facts) == ("invalid", ())
    assert "must be from" in verdict.reply.message
