"""The public feed says each move of a job once, in words."""

import ast
import inspect
import re

from tests.make import T0, World, node, spec

from gangline_core import cycle, elasticity
from gangline_core.door.edits import JobEdit
from gangline_core.facts import Eviction, JobEdited, JobRejected, RoundDecided, StragglersSeen
from gangline_core.fold import Message
from gangline_core.job import MOVES
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.step import Step
from gangline_recorder import events
from gangline_recorder.events import NAMES, SPECIAL, public_events
from gangline_wire.events import EVENTS
from gangline_wire.requests import EventLine


def events_of(world: World, step: Step, *facts: object) -> list[EventLine]:
    message = Message(seq=step.seq, lane="any", epoch=1, at=step.at, facts=facts, raw=b"")  # type: ignore[arg-type]  # any facts will do here
    return public_events(world.state, message, step)


def test_a_victim_is_told_who_pushed_it_and_that_it_waits_again() -> None:
    world = World(node("n1", gpus=8))
    victim = world.submit_running(spec(gpus=8), "n1")
    winner = world.submit(spec(gpus=8, priority=10))
    evicted = RoundDecided(
        pool="default", round=1, evictions=(Eviction(job=victim, beneficiary=winner, rule="priority"),)
    )
    (event,) = events_of(world, world.tell("placement.default", evicted))
    assert (event.event, event.job, event.numbers) == ("Preempted", victim, {"job": winner, "rule": "priority"})
    assert f"job {winner}" in event.message


def test_a_change_of_size_is_told_with_both_sizes_and_why() -> None:
    world = World(node("n1", gpus=4))
    job = world.submit_running(spec(gpus=1, tasks=1, minimum=1, maximum=3), "n1")
    world.wait(7200)
    world.tell("elastic.default", *elasticity.propose(world.state, "default", world.at))
    world.tell("queue.default", *filter(None, [cycle.open_round(world.state, "default", world.at)]))
    step = world.tell("placement.default", cycle.decide_round(world.state, "default", world.at))
    (event,) = events_of(world, step)
    assert (event.job, event.event) == (job, "Resizing")
    assert event.message == "From 1 to 3 tasks of worker: idle GPUs."


def test_a_rejected_job_is_in_the_feed_with_its_reason_and_without_a_number() -> None:
    world = World(node("n1", gpus=1))
    reason = Reason(ReasonCode.UNKNOWN_GROUP, {"group": "nowhere"})
    fact = JobRejected(spec=spec(), submit_id="s", by="u", reason=reason)
    (event,) = events_of(world, world.tell("admission", fact), fact)
    assert (event.event, event.job, event.message) == ("Rejected", 0, "There is no group nowhere.")


def test_event_ids_are_the_log_sequence_and_a_count_so_that_repeats_can_be_dropped() -> None:
    world = World(node("n1", gpus=8))
    job = world.submit(spec(gpus=1))
    world.place(job, "n1")
    step = world.tell("admission")
    assert events_of(world, step) == []
    assert step.at >= T0


def test_slow_members_are_told_once_and_their_recovery_is_no_event() -> None:
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1, tasks=3), "n1")
    slow = StragglersSeen(job=job, attempt=1, slow={world.tasks(job)[0].id: 180})
    (event,) = events_of(world, world.tell("telemetry", slow), slow)
    assert (event.event, event.job) == ("Straggling", job)
    assert f"{world.tasks(job)[0].id} (180 %)" in event.message
    over = StragglersSeen(job=job, attempt=1, slow={})
    assert events_of(world, world.tell("telemetry", over), over) == []


def test_changed_terms_are_told_as_people_write_them() -> None:
    world = World(node("n1"))
    job = world.submit(spec(gpus=1))
    edit = JobEdit(deadline_ms=1_782_864_000_000, not_before_ms=0, labels={"b": "2", "a": "1"}, preemptible=False)
    fact = JobEdited(job=job, edit=edit, by="ada")
    (event,) = events_of(world, world.tell("admission", fact), fact)
    told = "not_before = none, deadline = 2026-07-01 00:00:00 UTC, preemptible = false, labels = a=1,b=2, by ada."
    assert event.message == told


def test_every_event_of_the_feed_is_described_to_those_who_follow_it() -> None:
    told = {SPECIAL.get((before, after)) or NAMES[after] for (before, _), after in MOVES.items()}
    told |= {name for (before, _), name in SPECIAL.items() if before is None}
    told |= {
        node.value
        for node in ast.walk(ast.parse(inspect.getsource(events)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.fullmatch(r"([A-Z][a-z]+)+", node.value)
    }
    assert told == set(EVENTS)
