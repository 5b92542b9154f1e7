"""The judge at the door."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import facts as f
from gangline_core.door.admission import Judgement, judge_submit, numbered_together
from gangline_core.door.draft import Draft
from gangline_core.groups import Token, User
from gangline_core.limits.quota import Ledger
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.spec import ArraySpec, Dependency
from gangline_core.state import decode_snapshot, encode_snapshot


def ask(world: World, *specs, draft: Draft | None = None, key: str = "", by: str = "ada") -> Judgement:
    return judge_submit(
        world.state, draft or Draft(), specs=specs, submit_id=key or "one", by=by, trace="t", at=world.at
    )


def enter(world: World, *specs, key: str) -> Judgement:
    judgement = ask(world, *specs, key=key)
    if judgement.facts:
        world.tell("admission", *judgement.facts)
    return judgement


def refusal(world: World, **fields) -> tuple[ReasonCode, str, str]:
    ((index, reason, field),) = ask(world, spec(**fields)).refusals
    assert index == 0
    return reason.code, sentence(reason), field


def test_a_legal_job_enters_with_the_next_id():
    world = World(node())
    judgement = ask(world, spec("train", gpus=2), spec("eval"))
    assert judgement.jobs == (1, 2)
    assert not judgement.refusals
    first, second = judgement.facts
    assert first == f.JobAdmitted(job=1, spec=spec("train", gpus=2), submit_id="one", by="ada", trace="t")
    assert second.job == 2


def test_a_job_without_a_name_is_called_by_its_id_even_when_somebody_took_that_name():
    world = World(node())
    world.submit(name="job-2")
    judgement = ask(world, spec(), spec())
    assert [fact.spec.name for fact in judgement.facts] == ["job-2-2", "job-3"]


def test_a_request_is_admitted_whole_or_not_at_all():
    world, draft = World(node()), Draft()
    judgement = ask(world, spec("a"), spec("b", gpus=99), spec("c", pool="moon"), draft=draft)
    assert judgement.jobs == ()
    assert [(index, reason.code) for index, reason, _ in judgement.refusals] == [
        (1, ReasonCode.NEVER_FITS_NODE),
        (2, ReasonCode.UNKNOWN_POOL),
    ]
    assert all(isinstance(fact, f.JobRejected) for fact in judgement.facts)
    assert len(judgement.facts) == 2
    assert ask(world, spec("a"), draft=draft, key="two").jobs == (1,), "what was refused took nothing"


def test_a_copy_of_a_refused_request_is_not_taken_later_and_a_repeat_by_its_sender_is():
    """A copy lay on the bus until the limit was raised, and a job was there of which nobody was told."""
    world = World(node(), groups=[group("q", limit=gpu_amount(1))])
    asked = {"specs": [spec("a", gpus=2, group="q")], "submit_id": "key:1", "by": "ada", "trace": ""}
    refused = judge_submit(world.state, Draft(), **asked, at=world.at, ask="first")
    assert [reason.code for _, reason, _ in refused.refusals] == [ReasonCode.NEVER_FITS_LIMIT]
    world.tell("admission", *refused.facts)
    world.tell("admission", f.GroupSet(group=group("q", limit=gpu_amount(4)), by="root"))
    world.state = decode_snapshot(encode_snapshot(world.state))
    draft = Draft()
    copy = judge_submit(world.state, draft, **asked, at=world.at, ask="first")
    assert (copy.was_refused, copy.facts, draft.admitted) == (True, (), 0)
    repeat = judge_submit(world.state, draft, **asked, at=world.at, ask="second")
    assert repeat.jobs == (1,)
    world.tell("admission", *repeat.facts)
    late = judge_submit(world.state, Draft(), **asked, at=world.at, ask="first")
    assert (late.jobs, late.repeated) == ((1,), True), "the job is there, and its sender knows it"


def test_a_copy_is_not_taken_in_the_batch_in_which_the_first_was_refused():
    world, draft = World(node(), groups=[group("q", limit=gpu_amount(1))]), Draft()
    asked = {"submit_id": "key:1", "by": "ada", "trace": "", "at": world.at, "ask": "first"}
    assert judge_submit(world.state, draft, specs=[spec("a", gpus=2, group="q")], **asked).refusals
    assert judge_submit(world.state, draft, specs=[spec("a", gpus=1, group="q")], **asked).was_refused


def test_a_refused_submit_changes_nothing_but_the_record_of_it():
    """B01: the second job of a name is refused, again and again, and usage stays what it was."""
    world = World(node(), groups=[group("q", limit=gpu_amount(8))])
    enter(world, spec("a", gpus=2, group="q"), key="first")
    world.run(1, "n1")
    before = {holder: dict(use) for holder, use in world.state.usage.items()}
    for k in range(10):
        judgement = enter(world, spec("a", gpus=2, group="q"), key=f"again-{k}")
        assert judgement.refusals[0][1].code == ReasonCode.NAME_TAKEN
    assert world.state.usage == before
    assert world.state.unfinished["q"] == 1
    assert world.state.kept.next_job == 2
    world.finish(1)
    assert enter(world, spec("a", gpus=2, group="q"), key="later").jobs == (2,), "the name is free when the job ended"


def test_a_repeated_submit_gives_the_first_answer_from_the_log_and_from_the_same_batch():
    world, draft = World(node()), Draft()
    first = ask(world, spec("a"), draft=draft, key="k")
    again = ask(world, spec("a"), draft=draft, key="k")
    assert (again.jobs, again.facts, again.repeated) == (first.jobs, (), True)
    world.tell("admission", *first.facts)
    assert ask(world, spec("a"), key="k").repeated
    assert ask(world, spec("a"), key="k").jobs == first.jobs


def test_a_refused_submit_may_be_repaired_and_sent_again_under_its_key():
    world = World(node())
    assert enter(world, spec("a", pool="moon"), key="k").refusals
    assert enter(world, spec("a"), key="k").jobs == (1,)


def test_requests_judged_together_see_each_other():
    world, draft = World(node(), groups=[group("a", queued_jobs_max=2)]), Draft()
    assert ask(world, spec("x", group="a"), draft=draft, key="1").jobs == (1,)
    assert ask(world, spec("x", group="a"), draft=draft, key="2").refusals[0][1].code == ReasonCode.NAME_TAKEN
    assert ask(world, spec("y", group="a"), draft=draft, key="3").jobs == (2,)
    assert ask(world, spec("z", group="a"), draft=draft, key="4").refusals[0][1].code == ReasonCode.QUEUE_FULL
    assert ask(world, spec("after", after=[1, 2]), draft=draft, key="5").jobs == (3,)


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"group": "nobody"}, ReasonCode.UNKNOWN_GROUP, "group"),
        ({"pool": "moon"}, ReasonCode.UNKNOWN_POOL, "pool"),
        ({"level": "urgent"}, ReasonCode.UNKNOWN_LEVEL, "level"),
        ({"after": [77]}, ReasonCode.UNKNOWN_DEPENDENCY, "after[0]"),
    ],
)
def test_what_does_not_exist_is_named(fields, code, field):
    found = refusal(World(node()), **fields)
    assert (found[0], found[2]) == (code, field)
    assert "?" not in found[1]


def test_a_job_cannot_follow_one_that_failed_or_itself():
    world = World(node())
    failed = world.submit_running(spec(gpus=1), "n1")
    world.finish(failed, code=1)
    assert refusal(world, after=[failed])[0] == ReasonCode.DEPENDENCY_FAILED
    assert refusal(world, after=[world.state.kept.next_job])[0] == ReasonCode.UNKNOWN_DEPENDENCY
    assert ask(world, spec(after=[Dependency(job=failed, any_outcome=True)])).jobs


def test_only_members_submit_to_a_group_that_lists_members():
    world = World(
        node(),
        groups=[group("a", heads=("hedy",)), group("a/b"), group("open")],
        users=[User(name="ada", group="a"), User(name="eve", group="a/b")],
    )
    tokens = [
        Token(digest="1", name="x", role="user", user="tove", groups=("a",)),
        Token(digest="2", name="y", role="admin", user="root"),
    ]
    world.tell("admission", *(f.TokenIssued(token=token, by="root") for token in tokens))
    for user, path in (("ada", "a"), ("hedy", "a"), ("hedy", "a/b"), ("tove", "a"), ("tove", "a/b"), ("bob", "open")):
        assert ask(world, spec(user=user, group=path)).jobs, (user, path)
    assert refusal(world, user="bob", group="a")[0] == ReasonCode.UNKNOWN_USER
    assert refusal(world, user="ada", group="a/b")[0] == ReasonCode.UNKNOWN_USER
    assert ask(world, spec(user="bob", group="a"), by="root").jobs, "an administrator may submit for anybody"
    world.tell("admission", f.TokenRevoked(digest="1", by="root"))
    assert refusal(world, user="tove", group="a")[0] == ReasonCode.UNKNOWN_USER


def test_a_queue_has_a_cap_per_group_above_and_per_user():
    world = World(
        node(),
        groups=[group("a", queued_jobs_max=3), group("a/b")],
        users=[User(name="ada", group="a/b", queued_jobs_max=2)],
    )
    enter(world, spec(group="a/b"), spec(group="a/b"), key="1")
    assert refusal(world, group="a/b")[1] == "User ada has 2 unfinished jobs; the limit is 2."
    assert ask(world, spec(group="a", user="bob")).jobs
    enter(world, spec(group="a", user="bob"), key="2")
    assert refusal(world, group="a", user="bob")[1] == "Group a has 3 unfinished jobs; the limit is 3."


def test_submits_per_minute_are_counted_over_the_last_minute():
    world = World(node(), groups=[group("a", submits_per_minute=3)])
    enter(world, spec(group="a"), spec(group="a"), key="1")
    world.wait(30)
    enter(world, spec(group="a"), key="2")
    assert refusal(world, group="a")[0] == ReasonCode.SUBMIT_RATE
    world.wait(31)
    assert ask(world, spec(group="a"), spec(group="a")).jobs
    assert ask(world, spec(group="a"), spec(group="a"), spec(group="a")).refusals


def test_a_time_limit_over_the_groups_is_refused_and_a_missing_one_becomes_the_groups():
    world = World(node(), groups=[group("a", time_limit_s_max=7200), group("a/b", time_limit_s_max=3600)])
    assert refusal(world, group="a/b", time_limit_s=3601) == (
        ReasonCode.TIME_LIMIT_TOO_LONG,
        "The time limit is 3601 s; group a/b allows 3600 s.",
        "time_limit",
    )
    (admitted,) = ask(world, spec(group="a/b")).facts
    assert admitted.spec.time_limit_s == 3600
    (kept,) = ask(world, spec(group="a", time_limit_s=60)).facts
    assert kept.spec.time_limit_s == 60


def test_a_group_without_budget_left_is_refused_gpus_at_the_door():
    world = World(node(), groups=[group("a", budget_gpu_hours=5), group("a/b")])
    world.tell("accounting", f.BudgetExhausted(group="a", used_gpu_milli_ms=1))
    assert refusal(world, group="a/b")[0] == ReasonCode.BUDGET_EXHAUSTED
    assert ask(world, spec(gpus=0, group="a/b")).jobs


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "a/b", "c"]), st.integers(1, 5), st.booleans()), max_size=10))
def test_the_jobs_let_in_can_each_run_alone_within_every_limit(asks):
    world = World(
        node(gpus=16), groups=[group("a", limit=gpu_amount(4)), group("a/b", limit=gpu_amount(3)), group("c")]
    )
    draft = Draft()
    for k, (path, gpus, is_pair) in enumerate(asks):
        one = spec(group=path, gpus=gpus)
        judgement = ask(world, *([one, one] if is_pair else [one]), draft=draft, key=str(k))
        for fact in judgement.facts:
            if isinstance(fact, f.JobAdmitted):
                world.tell("admission", fact)
                draft = Draft()
                assert Ledger(world.state).fault(world.job(fact.job), gpu_amount(gpus)) is None
    assert sorted(world.state.kept.jobs) == list(range(1, len(world.state.kept.jobs) + 1)), "ids have no gaps"


def test_a_hundred_jobs_are_judged_in_a_few_milliseconds():
    world = World(
        *(node(f"n{k}") for k in range(1200)), groups=[group(f"g{k}", limit=gpu_amount(64)) for k in range(20)]
    )
    specs = [spec(f"j{k}", gpus=1 + k % 8, group=f"g{k % 20}", user=f"u{k % 30}") for k in range(100)]
    ask(world, *specs)
    best = min(_seconds(lambda: ask(world, *specs)) for _ in range(3))
    assert best < 0.05, "about 3 ms on an idle machine; the bound leaves room for a busy one"


def _seconds(act) -> float:
    before = time.process_time()
    act()
    return time.process_time() - before


def test_an_array_of_more_elements_than_its_queue_ever_holds_is_refused_for_good():
    world = World(node(), groups=[group("a")], users=[User(name="ada", group="a", queued_jobs_max=5)])
    asked = spec(group="a", array=ArraySpec(ranges=((0, 9, 1),)))
    ((_, reason, field),) = ask(world, asked).refusals
    assert (reason.code, field) == (ReasonCode.QUEUE_TOO_SMALL, "array")
    assert sentence(reason) == "The array has 10 elements; the limit of User ada is 5 unfinished jobs."


def test_jobs_asked_for_together_follow_each_other_by_their_places():
    world = World(node())
    asked = (
        spec("prep", array=ArraySpec(ranges=((0, 9, 1),))),
        spec("train", after=[Dependency(0, entry=0, index=7), Dependency(0, entry=0, any_outcome=True)]),
        spec("eval", after=[Dependency(0, entry=1)]),
    )
    judgement = enter(world, *asked, key="k")
    first, second, third = judgement.jobs
    assert [fact.spec.after for fact in judgement.facts] == [
        (),
        (Dependency(first + 8), Dependency(first, any_outcome=True)),
        (Dependency(second),),
    ]
    assert third == second + 1
    assert numbered_together(asked, judgement.jobs) == [fact.spec for fact in judgement.facts]


def test_whoever_follows_one_that_is_refused_is_not_blamed_for_it():
    world = World(node())
    judgement = ask(world, spec("prep", gpus=99), spec("train", after=[Dependency(0, entry=0)]))
    assert [(index, reason.code) for index, reason, _ in judgement.refusals] == [(0, ReasonCode.NEVER_FITS_NODE)]


@pytest.mark.parametrize("entry", [1, 2, 99])
def test_a_place_that_is_none_before_the_job_is_no_job_to_wait_for(entry: int):
    world = World(node())
    judgement = ask(world, spec("prep"), spec("train", after=[Dependency(0, entry=entry)]))
    assert [(index, reason.code) for index, reason, _ in judgement.refusals] == [(1, ReasonCode.UNKNOWN_DEPENDENCY)]
