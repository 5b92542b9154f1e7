"""Each field of each document by itself, with everything in it that nobody expects there.

`test_decoders` changes documents at random, but only what stands in them; here no field is left out, so that a new one
is tried from its first day.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.security.test_decoders import JUNK, mutated

from gangline_core.cluster import Policy, Pool
from gangline_core.groups import Group, Token, User
from gangline_gateway.cursor import make_cursor, read_cursor
from gangline_gateway.problems import ProblemError
from gangline_gateway.settings import read_settings
from gangline_wire import codec
from gangline_wire.jobfile import SINGLE_FIELDS, parse_job
from gangline_wire.jobfile_elastic import ELASTIC_FIELDS, PAUSE_FIELDS
from gangline_wire.jobfile_order import ARRAY_FIELDS, DEPENDENCY_FIELDS
from gangline_wire.jobfile_place import SLICE_FIELDS, TOPOLOGY_FIELDS
from gangline_wire.policyfile import (
    CLASS_FIELDS,
    GROUP_FIELDS,
    PINNED_FIELDS,
    POLICY_FIELDS,
    POOL_FIELDS,
    USER_FIELDS,
    WINDOW_FIELDS,
    parse_policy,
)
from gangline_wire.problem import FieldErrorsError
from gangline_wire.requests import Reply, Request

GOLDEN = Path(__file__).parent.parent / "wire" / "golden"
JOB = {"gpus": 1, "command": ["true"]}
MORE: tuple[Any, ...] = (*JUNK, "a", 1, 2.5, False, ["a"], [1], [{}], {"a": 1}, {"a": {"a": 1}}, {1: 2}, [[1, 2]])
PARTS: dict[str, tuple[Mapping[str, Any], Callable[[Any], Any]]] = {
    "a job": (SINGLE_FIELDS, lambda part: {**JOB, **part}),
    "a role": (SINGLE_FIELDS, lambda part: {"roles": [{**JOB, "name": "r", **part}]}),
    "elastic": (ELASTIC_FIELDS, lambda part: {**JOB, "elastic": part}),
    "pauses": (PAUSE_FIELDS, lambda part: {**JOB, "pause": part}),
    "an array": (ARRAY_FIELDS, lambda part: {**JOB, "array": {"indexes": "0-3", **part}}),
    "a dependency": (DEPENDENCY_FIELDS, lambda part: {**JOB, "after": [part]}),
    "topology": (TOPOLOGY_FIELDS, lambda part: {**JOB, "topology": part}),
    "a slice": (SLICE_FIELDS, lambda part: {**JOB, "topology": {"slices": part}}),
}
SETTINGS: dict[str, tuple[Mapping[str, Any], Callable[[Any], Any]]] = {
    "a group": (GROUP_FIELDS, lambda part: {"groups": {"t": part}}),
    "the root": (GROUP_FIELDS, lambda part: {"root": part}),
    "a user": (USER_FIELDS, lambda part: {"groups": {"t": {"users": {"u": part}}}}),
    "a class": (CLASS_FIELDS, lambda part: {"classes": {"c": part}}),
    "a pool": (POOL_FIELDS, lambda part: {"pools": {"p": part}}),
    "a window": (WINDOW_FIELDS, lambda part: {"windows": {"w": part}}),
    "a policy": (POLICY_FIELDS, lambda part: {"policies": {"p": part}}),
    "a pinned cell": (PINNED_FIELDS, lambda part: {"policies": {"p": {"pinned": {"x": part}}}}),
}


def filled(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Each field with each value."""
    for field in fields:
        for value in MORE:
            yield {field: value}


@pytest.mark.parametrize("part", PARTS)
def test_a_field_of_a_job_takes_anything_or_says_what_is_wrong(part: str) -> None:
    fields, around = PARTS[part]
    refusals: list[FieldErrorsError] = []
    for entry in filled(fields):
        try:
            parse_job(around(entry))
        except FieldErrorsError as error:
            refusals.append(error)
    assert len(refusals) > len(fields)
    assert all(refusal.errors for refusal in refusals)
    assert all(0 < len(each.message) < 2_000 for refusal in refusals for each in refusal.errors)


@pytest.mark.parametrize("part", SETTINGS)
def test_a_field_of_a_policy_file_takes_anything_or_says_what_is_wrong(part: str) -> None:
    fields, around = SETTINGS[part]
    refusals: list[FieldErrorsError] = []
    for entry in filled(fields):
        try:
            parse_policy(around(entry))
        except FieldErrorsError as error:
            refusals.append(error)
    assert len(refusals) > len(fields)
    assert all(refusal.errors for refusal in refusals)


@pytest.mark.parametrize("kind", [Policy, Group, User, Pool, Token])
def test_a_field_of_settings_takes_anything_or_says_what_is_wrong(kind: type[Struct]) -> None:
    refusals: list[int] = []
    for entry in filled({name: None for name in kind.__struct_fields__}):
        try:
            read_settings(entry, kind)
        except ProblemError as error:
            refusals.append(error.status)
    assert len(refusals) > len(kind.__struct_fields__)
    assert set(refusals) == {422}


@pytest.mark.parametrize(("begin", "kind"), [("request", Request), ("reply", Reply)])
def test_a_request_or_reply_of_anything_is_one_or_refused(begin: str, kind: Any) -> None:
    draw = random.Random(begin)
    seeds = [path.read_bytes() for path in sorted(GOLDEN.glob(f"{begin}.*.json"))]
    read = 0
    for seed in seeds:
        codec.decode(seed, kind)
        for _ in range(60):
            with suppress(codec.CodecError):
                codec.decode(mutated(seed, draw), kind)
                read += 1
    assert read


def test_a_cursor_of_anything_is_the_callers_own_or_refused() -> None:
    draw = random.Random(5)
    good = make_cursor("41", caller="c" * 64, question="jobs")
    read: set[str] = set()
    refusals: set[int] = set()
    for _ in range(2_000):
        text = mutated(good.encode(), draw).decode("latin-1")
        try:
            read.add(read_cursor(text, caller="c" * 64, question="jobs"))
        except ProblemError as error:
            refusals.add(error.status)
    assert read <= {"", "41"}
    assert refusals == {400}
    for caller, question in (("d" * 64, "jobs"), ("c" * 64, "nodes"), ("", "jobs")):
        with pytest.raises(ProblemError):
            read_cursor(good, caller=caller, question=question)
