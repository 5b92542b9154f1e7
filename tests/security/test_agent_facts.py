"""Whatever an agent writes on its own lane, whoever folds the log and decides on it goes on."""

import json
import random
from typing import Any

import pytest
from msgspec import structs, to_builtins
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.facts import Fact
from gangline_core.fold import Message, apply
from gangline_core.limits import accounting
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_core.wake import next_wake_ms
from gangline_recorder.events import public_events
from gangline_wire import subjects
from gangline_wire.lanes import PENS
from gangline_wire.stored import message

LANE = "agent.n1"
KINDS: list[type[Fact]] = [kind for kind, pen in PENS.items() if pen == "agent"]
NUMBERS = (0, 1, -1, 5, 100, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**30), 10**300)
TEXTS = ("", "x" * 5_000, "\U0001f600", "n1", "n2", "1-1-worker-0", "3-1-worker-0", "default", "exited")
OTHERS = (None, [], {}, [1], {"a": 1}, *NUMBERS, *TEXTS)
ROUNDS, TOGETHER, BELIEVED_LEAST = 60, 6, 40


def busy() -> World:
    world = World(node("n1", agent="n1"), node("n2", agent="b"), groups=[group("lab", limit=gpu_amount(12))])
    world.submit_running(spec(gpus=2, tasks=2), "n1", "n1")
    world.submit_running(spec(gpus=1, tasks=2, minimum=1, maximum=4), "n1", "n1")
    world.submit_running(spec(gpus=8, time_limit_s=100), "n2")
    world.submit(gpus=8, group="lab")
    world.submit(gpus=4, priority=5)
    world.wait(50).round()
    return world


def said(world: World, kind: type[Fact], draw: random.Random) -> dict[str, Any]:
    """A fact of this kind as the agent could say it, with what nobody expects in one place of it."""
    tasks = [task for job in world.state.kept.jobs for task in world.tasks(job)]
    task = draw.choice([task for task in tasks if task.node == "n1"] or tasks)
    known = {
        "task": task.id,
        "tasks": [task.id],
        "pid": 5,
        "cause": "exited",
        "exit_code": 0,
        "node": to_builtins(world.state.kept.nodes["n1"]) if kind is f.NodeSeen else "n1",
        "job": task.job,
    }
    fields = structs.fields(kind)
    found = {
        field.encode_name: known.get(field.encode_name, draw.choice(OTHERS))
        for field in fields
        if field.required or field.encode_name in known or draw.random() < 0.3
    }
    return {"fact": kind.__name__, **spoilt(found, draw)} if draw.random() < 0.9 else {"fact": kind.__name__, **found}


def spoilt(value: Any, draw: random.Random) -> Any:
    match value:
        case dict() if value:
            name = draw.choice(sorted(value))
            return {**value, name: spoilt(value[name], draw)}
        case list() if value:
            place = draw.randrange(len(value))
            return [*value[:place], spoilt(value[place], draw), *value[place + 1 :]]
        case bool():
            return not value
        case int():
            return draw.choice(NUMBERS)
        case str():
            return draw.choice(TEXTS)
        case _:
            return draw.choice(OTHERS)


def written(world: World, kind: type[Fact], draw: random.Random) -> Message:
    times = (0, 5, -1, 10**30, -(10**30), world.at - 10**9, world.at + 50_000)
    batch = {
        "lane": LANE,
        "epoch": draw.choice((1, 1, 1, 0, -1, 10**30)),
        "seq_seen": draw.choice((0, 1, -5, 10**30)),
        "at": world.at if draw.random() < 0.7 else draw.choice(times),
        "facts": [said(world, kind, draw)],
    }
    seq = world.state.kept.seq + 1
    return message(seq, json.dumps(batch).encode(), subject=subjects.log(LANE), stored_ms=world.at)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_whoever_folds_what_an_agent_wrote_goes_on_and_decides(kind: type[Fact]) -> None:
    draw, believed = random.Random(kind.__name__), 0
    for _ in range(ROUNDS):
        world = busy()
        for _ in range(TOGETHER):
            entry = written(world, kind, draw)
            step = apply(world.state, entry)
            world.log.append(entry)
            believed += not entry.parked
            list(public_events(world.state, entry, step))
            world.wait(draw.choice((0, 1, 60, 4_000))).round()
            next_wake_ms(world.state, "default", world.at)
            elasticity.propose(world.state, "default", world.at)
            accounting.charge(world.state, world.at)
            decode_snapshot(encode_snapshot(world.state))
    assert believed > BELIEVED_LEAST
