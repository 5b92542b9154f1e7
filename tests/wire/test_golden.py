"""The bytes of every message are stored: a change of shape is seen, and what was written yesterday still decodes.

To write the files of new messages: WRITE_GOLDEN=1 pytest tests/wire/test_golden.py. Never rewrite an existing one
unless its shape is meant to change; then the old file moves to golden/old.
"""

import os
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.wire import samples

from gangline_core import facts as f
from gangline_core.fold import HANDLERS
from gangline_wire import requests as r
from gangline_wire.codec import CodecError, decode, decode_batch, encode
from gangline_wire.envelope import SCHEMA_VERSION, Batch
from gangline_wire.lanes import CARRIERS, LANES, PENS, kind_of, stray_facts
from gangline_wire.stored import message

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"


def _batch(fact: f.Fact) -> Batch:
    lane = PENS.get(type(fact), "admission")
    return Batch(lane=lane, epoch=7, seq_seen=119, at=1_700_000_000_000, facts=(fact,))


MESSAGES: dict[str, object] = {
    **{f"fact.{type(fact).__name__}": _batch(fact) for fact in samples.FACTS},
    **{f"request.{type(one).__name__}": one for one in samples.REQUESTS},
    **{f"reply.{type(one).__name__}": one for one in samples.REPLIES},
    **{f"other.{type(one).__name__}": one for one in samples.OTHERS},
}


def _kind(name: str) -> Any:
    prefix = name.partition(".")[0]
    return {"fact": Batch, "request": r.Request, "reply": r.Reply}.get(prefix) or type(MESSAGES[name])


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_the_bytes_of_a_message_are_those_on_record(name: str) -> None:
    path = GOLDEN / f"{name}.json"
    if os.environ.get("WRITE_GOLDEN") and not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode(MESSAGES[name]) + b"\n")
    assert path.read_bytes() == encode(MESSAGES[name]) + b"\n"


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_the_bytes_on_record_decode_to_the_message(name: str) -> None:
    assert decode((GOLDEN / f"{name}.json").read_bytes(), _kind(name)) == MESSAGES[name]


@pytest.mark.parametrize("path", sorted((GOLDEN / "old").glob("*.json")), ids=lambda path: path.stem)
def test_bytes_of_earlier_builds_still_decode(path: Path) -> None:
    decoded = decode(path.read_bytes(), _kind(path.stem.rpartition("@")[0]))
    assert type(decoded) is type(MESSAGES[path.stem.rpartition("@")[0]])


def test_every_message_has_an_example_with_all_of_its_fields_set() -> None:
    assert {type(fact) for fact in samples.FACTS} == set(get_args(f.Fact))
    assert {type(one) for one in samples.REQUESTS} == set(get_args(r.Request))
    assert {type(one) for one in samples.REPLIES} == set(get_args(r.Reply))
    for example in (*samples.FACTS, *samples.REQUESTS, *samples.REPLIES):
        left = [
            field.name
            for field in msgspec.structs.fields(example)
            if field.default is not msgspec.NODEFAULT and getattr(example, field.name) == field.default
        ]
        assert not left, f"{type(example).__name__} leaves {left} at their defaults"


def test_fields_that_a_newer_build_adds_are_ignored() -> None:
    raw = msgspec.json.decode(encode(_batch(samples.FACTS[1])))
    raw["facts"][0]["colour"] = "blue"
    raw["colour"] = "blue"
    assert decode_batch(msgspec.json.encode(raw)) == _batch(samples.FACTS[1])


def test_a_newer_schema_is_refused_and_says_what_to_do() -> None:
    raw = msgspec.json.decode(encode(_batch(samples.FACTS[1])))
    raw["v"] = SCHEMA_VERSION + 1
    with pytest.raises(CodecError, match="upgrade first"):
        decode_batch(msgspec.json.encode(raw))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"nonsense", b'{"lane":"x"}', b"\xff"])
def test_bytes_that_are_no_batch_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_batch(data)


def test_a_message_keeps_its_stored_bytes_for_the_chain() -> None:
    data = encode(_batch(samples.FACTS[1]))
    found = message(120, data)
    assert (found.seq, found.raw, found.facts) == (120, data, (samples.FACTS[1],))


# --- one pen, one handler -------------------------------------------------------------------------------------


def test_every_fact_has_one_pen_and_one_handler() -> None:
    facts = set(get_args(f.Fact))
    assert set(PENS) == facts - {f.LeadershipTaken}
    assert set(HANDLERS) == facts
    assert set(PENS.values()) == set(LANES) - {"kubernetes"}, "a cluster writes what its nodes' agents would write"
    assert set(PENS) >= CARRIERS


def test_a_fact_in_another_lane_is_found_out() -> None:
    for fact in samples.FACTS:
        for kind in LANES:
            is_right = PENS.get(type(fact), kind) == kind or (kind == "kubernetes" and type(fact) in CARRIERS)
            assert stray_facts(f"{kind}.x", (fact,)) == ([] if is_right else [type(fact).__name__])


def test_the_kind_of_a_lane_is_its_first_word() -> None:
    assert kind_of("queue.default") == "queue"
    assert kind_of("admission") == "admission"
