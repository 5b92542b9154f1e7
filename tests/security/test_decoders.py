"""Whatever bytes come in: what reads them gives a value or its own refusal, and nothing else."""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.make import World, node, spec

from gangline_client.batch_script import read_script
from gangline_client.batch_terms import SHORT, TERMS
from gangline_client.errors import InputError
from gangline_core.state import State, decode_snapshot, encode_snapshot
from gangline_kit import follower
from gangline_kit.config import ConfigError, load
from gangline_lab.archive import ArchiveError
from gangline_lab.readers import READERS as TRACES
from gangline_lab.readers import read_trace
from gangline_lab.rows import TraceError
from gangline_placement.config import Config as PlacementConfig
from gangline_wire import archive, codec, stored
from gangline_wire.jobfile import parse_job
from gangline_wire.problem import FieldErrorsError
from gangline_wire.requests import EventLine, Reply, Request
from gangline_wire.samples import Samples

GOLDEN = Path(__file__).parent.parent / "wire" / "golden"
ROUNDS = 400
JOB: dict[str, Any] = {
    "name": "train",
    "gpus": 2,
    "cpus": "500m",
    "memory": "16Gi",
    "command": ["python", "train.py"],
    "env": {"A": "1"},
    "time_limit": "1h30m",
    "topology": {"required": "rack"},
    "after": [{"job": 1}],
    "retries": 2,
    "labels": {"a": "b"},
    "attributes": {"kind": "training", "parameters": 7e9},
}
JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 2**200, 1e308, float("nan"), "", "\x00", "a" * 70_000, "\ud800", "9" * 400, "$(id)",
    "../../etc/passwd", [], {}, [[[[]]]], {"": {"": {}}}, "1e999", "-0", "١٢", "\u202e", [None], {"gpus": {"gpus": 1}},
)  # fmt: skip


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The bytes with some of them cut, doubled, flipped, moved or replaced."""
    found = bytearray(data)
    for _ in range(draw.randrange(1, 6)):
        at, size = draw.randrange(len(found) + 1), draw.randrange(1, 12)
        match draw.randrange(5):
            case 0:
                del found[at : at + size]
            case 1:
                found[at:at] = found[at : at + size]
            case 2:
                found[at:at] = draw.randbytes(size)
            case 3 if at < len(found):
                found[at] ^= 1 << draw.randrange(8)
            case _:
                found[at:at] = draw.choice([b"null", b"[", b"{", b'"', b"-1", b"1e400", b"\xff\xfe", b"\\ud800", b","])
    return bytes(found)


def changed(value: Any, draw: random.Random) -> Any:
    """A document in which something is replaced by what nobody expects there."""
    if draw.random() < 0.25 or not isinstance(value, dict | list) or not value:
        return draw.choice(JUNK)
    if isinstance(value, list):
        at = draw.randrange(len(value))
        return [*value[:at], changed(value[at], draw), *value[at + 1 :]]
    key = draw.choice(sorted(value))
    return {**value, key: changed(value[key], draw)}


def busy_state() -> State:
    world = World(node("n1"))
    world.submit_running(spec(gpus=1), "n1")
    world.submit(spec(gpus=9, tasks=3))
    return world.state


def batches() -> list[bytes]:
    return [path.read_bytes() for path in sorted(GOLDEN.glob("fact.*.json"))]


READERS: dict[str, tuple[Callable[[bytes], object], Callable[[], list[bytes]], tuple[type[Exception], ...]]] = {
    "facts": (codec.decode_batch, batches, (codec.CodecError,)),
    "log messages": (lambda data: stored.message(1, data), batches, (codec.CodecError,)),
    "requests": (lambda data: codec.decode(data, Request), batches, (codec.CodecError,)),
    "replies": (lambda data: codec.decode(data, Reply), batches, (codec.CodecError,)),
    "samples": (
        lambda data: codec.decode(data, Samples),
        lambda: [codec.encode(Samples(agent="a", nodes=()))],
        (codec.CodecError,),
    ),
    "events": (
        lambda data: codec.decode(data, EventLine),
        lambda: [b'{"id":"1-0","at":1,"event":"Queued","job":1,"group":"g","user":"u","name":"n","message":"m"}'],
        (codec.CodecError,),
    ),
    "archive lines": (
        archive.decode_line,
        lambda: [archive.encode_line(stored.message(1, data), head="ab") for data in batches()],
        (ValueError,),
    ),
    "snapshots": (
        decode_snapshot,
        lambda: [encode_snapshot(busy_state())],
        (msgspec.MsgspecError, ValueError, RecursionError),
    ),
    "snapshots with their heads": (
        follower.decode,
        lambda: [follower.encode(busy_state(), b"{}")[1]],
        (follower.SnapshotError,),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_of_bytes_gives_a_value_or_its_own_refusal(name: str) -> None:
    read, seeds, refusals = READERS[name]
    draw = random.Random(name)
    for seed in seeds():
        for _ in range(max(10, ROUNDS // len(seeds()))):
            data = mutated(seed, draw) if draw.random() < 0.9 else draw.randbytes(draw.randrange(200))
            with suppress(refusals):
                read(data)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("more", [b"[" * 100_000, b"[" * 5_000 + b"]" * 5_000, b'{"a":' * 3_000 + b"1" + b"}" * 3_000])
def test_nothing_is_nested_too_deep_for_a_reader_to_refuse_it(name: str, more: bytes) -> None:
    read, seeds, refusals = READERS[name]
    for seed in seeds():
        for data in (more, seed[:-1].rstrip(b"}\n") + b',"more":' + more + b"}", seed.replace(b":", b":" + more, 1)):
            with suppress(refusals):
                read(data)


def test_a_job_file_of_anything_is_a_job_or_a_list_of_what_is_wrong_with_it() -> None:
    draw = random.Random(1)
    refusals: list[FieldErrorsError] = []
    for _ in range(3_000):
        document = JOB
        for _ in range(draw.randrange(1, 4)):
            document = changed(document, draw)
        try:
            parse_job(document)
        except FieldErrorsError as error:
            refusals.append(error)
    assert len(refusals) > 1_000
    assert all(refusal.errors for refusal in refusals)
    assert all(len(each.message) < 2_000 for refusal in refusals for each in refusal.errors)


def test_a_job_file_of_broken_yaml_is_refused_as_such() -> None:
    draw = random.Random(2)
    text = yaml.safe_dump(JOB).encode()
    read = refused = 0
    for _ in range(300):
        try:
            document = yaml.safe_load(mutated(text, draw))
        except (yaml.YAMLError, ValueError, RecursionError):
            continue
        read += 1
        try:
            parse_job(document)
        except FieldErrorsError as error:
            refused += bool(error.errors)
    assert 0 < refused <= read


SCRIPT = """#!/bin/bash
#SBATCH --job-name=resnet --nodes=2
#SBATCH --gres=gpu:a100:4,shard:1 --time=1-12:30:00 --array=0-15%4
#SBATCH -d afterok:12:13,singleton --signal=B:USR1@90 --mem=64G
#GANGLINE topology: {preferred: rack}
srun python train.py
"""
WORDS = (
    *(f"--{name}" for name in TERMS), *(f"-{letter}" for letter in SHORT), "=", "0", "-1", "4:4:4:4", "999999999999",
    "now+", "a,b", "gpu:", "2-", "%", '"', "'", "#", "\\", "{", "[", ": ", "&a", "*a", "!!python/object:os.system",
    "\u0661", "\x00", "1e9", "@",
)  # fmt: skip


def test_a_batch_script_of_anything_is_a_job_or_a_list_of_what_is_wrong_with_it() -> None:
    draw = random.Random(17)
    jobs = refused = 0
    for _ in range(ROUNDS * 3):
        if draw.random() < 0.5:
            text = mutated(SCRIPT.encode(), draw).decode("utf-8", "replace")
        else:
            lines = [
                draw.choice(("#SBATCH ", "#GANGLINE "))
                + draw.choice(("", " ", "=")).join(draw.choices(WORDS, k=draw.randrange(1, 6)))
                for _ in range(draw.randrange(1, 4))
            ]
            text = "\n".join(["#!/bin/sh", *lines, "true"])
        try:
            script = read_script(text, "job.sh", environ={"PATH": "/bin"}, folder="/tmp", now_ms=1)
        except InputError:
            refused += 1
            continue
        jobs += 1
        with suppress(FieldErrorsError):
            parse_job(script.document)
    assert jobs
    assert refused


def test_settings_of_anything_are_settings_or_one_error() -> None:
    draw = random.Random(3)
    refused = 0
    for _ in range(300):
        environ = {
            f"GANGLINE_PLACEMENT_{field.upper()}": str(draw.choice(JUNK)).replace("\x00", "")
            for field in PlacementConfig.__struct_fields__
            if draw.random() < 0.5
        }
        try:
            load(PlacementConfig, "placement", environ)
        except ConfigError as error:
            refused += bool(str(error))
    assert 0 < refused < 300, "some settings are good ones"


@pytest.mark.parametrize("kind", sorted(TRACES))
def test_a_trace_of_anything_is_a_workload_or_one_error(kind: str, tmp_path: Path) -> None:
    draw = random.Random(kind)
    path = tmp_path / "trace"
    refused = 0
    for _ in range(120):
        path.write_bytes(
            mutated(draw.choice([b"", b"a,b\n1,2\n", json.dumps([JOB]).encode(), b"; x\n1 2 3 4 5\n"]), draw)
        )
        try:
            read_trace(f"{kind}:{path}")
        except (TraceError, ArchiveError) as error:
            refused += bool(str(error))
    assert refused
