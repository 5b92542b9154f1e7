"""Whatever body is sent, reading it takes so little of the processor that everybody else's leases and calls go on."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from gangline_core.groups import Group
from gangline_gateway.call import fields_of, parse_json
from gangline_gateway.problems import ProblemError
from gangline_gateway.settings import read_settings
from gangline_gateway.steer import EDIT_FIELDS, SIZE_FIELDS
from gangline_gateway.tokens import FIELDS as TOKEN_FIELDS
from gangline_wire.jobfile import parse_job
from gangline_wire.limits import most
from gangline_wire.policyfile import parse_policy
from gangline_wire.problem import FieldErrorsError

CPU_S_MAX = 0.25
"""Of one body, beside decoding its JSON; unhurried machines need a fifth of it."""
TRIES = 5
"""Even its own processor time is longer while others use the same core, or when its garbage is looked through."""
MANY = 180_000

UNKNOWN = {f"k{index}": 1 for index in range(MANY)}
LONG = {f"{index}".rjust(60, "e"): 1 for index in range(MANY // 4)}
SOME = {f"gpu_{index}": 1 for index in range(2_000)}


def job(**fields: Any) -> dict[str, Any]:
    return {"command": ["x"], **fields}


JOBS: dict[str, object] = {
    "unknown fields": job(**UNKNOWN),
    "long unknown fields": job(**LONG),
    "unknown fields of every role": {"roles": [SOME] * 16},
    "unknown fields beside roles": {"roles": [], **UNKNOWN},
    "fields of a role beside roles": {"roles": [job()], "gpus": 1, **UNKNOWN},
    "unknown fields below": job(elastic=UNKNOWN, pause=SOME, topology=SOME, array=SOME, sizes=SOME),
    "unknown fields of entries": job(after=[SOME] * 100, tolerations=[SOME] * 32),
    "unknown fields of slices": job(topology={"slices": UNKNOWN, "spread": SOME}),
    "variables": job(env=UNKNOWN),
    "labels, attributes and secrets": job(labels=UNKNOWN, attributes=SOME, secrets=SOME),
    "wrong arguments": job(command=[1] * MANY),
    "a long profile": job(mig="1g.5gb" * 600_000),
    "long texts": job(name="a" * 1_000_000, memory="9" * 1_000_000, time_limit="1h" * 400_000, array="1-2," * 250_000),
    "accents": job(name="\u0301" * 690_000),
}
GROUPS: dict[str, object] = {
    "unknown fields": {"path": "a", **UNKNOWN},
    "many amounts": {"path": "a", "limit": {f"gpu_milli:{index}": 1 for index in range(MANY)}},
    "many heads": {"path": "a", "heads": ["a"] * MANY},
    "lists of lists": {"path": "a", "heads": [[[1]] * 9_000] * 20},
}
POLICIES: dict[str, object] = {
    "unknown parts": UNKNOWN,
    "unknown groups": {"groups": {f"g{index}": {"k": 1} for index in range(MANY)}},
    "unknown amounts": {"groups": {"a": {"limit": UNKNOWN, "seasons": {f"s{index}": SOME for index in range(9)}}}},
    "unknown cells": {"pools": {"p": {"pinned": {f"c{index}": {"k": 1} for index in range(MANY // 2)}}}},
    "wrong prices": {"prices": dict.fromkeys(UNKNOWN, "x")},
}
SMALL: dict[str, object] = {"unknown fields": UNKNOWN, "long unknown fields": LONG}


def _readers() -> list[Any]:
    some: list[tuple[str, Callable[[Any], object], dict[str, object]]] = [
        ("job", parse_job, JOBS),
        ("group", lambda body: read_settings(body, Group), GROUPS),
        ("policy file", parse_policy, POLICIES),
        ("edit", lambda body: fields_of(body, EDIT_FIELDS), SMALL),
        ("size", lambda body: fields_of(body, SIZE_FIELDS), SMALL),
        ("token", lambda body: fields_of(body, TOKEN_FIELDS), SMALL),
    ]
    return [
        pytest.param(read, body, id=f"{kind}: {name}") for kind, read, bodies in some for name, body in bodies.items()
    ]


@pytest.mark.parametrize(("read", "body"), _readers())
def test_no_body_holds_the_processor(read: Callable[[Any], object], body: object) -> None:
    raw = json.dumps(body, separators=(",", ":")).encode()
    assert len(raw) <= most("body_bytes"), len(raw)
    document = parse_json(raw)
    taken_s: list[float] = []
    while not taken_s or (taken_s[-1] >= CPU_S_MAX and len(taken_s) < TRIES):
        begun_s = time.process_time()
        with pytest.raises((FieldErrorsError, ProblemError)) as refused:
            read(document)
        taken_s.append(time.process_time() - begun_s)
    assert taken_s[-1] < CPU_S_MAX, taken_s
    assert 1 <= len(refused.value.errors) <= most("errors")


def test_the_first_unknown_fields_are_still_answered_with_what_was_meant() -> None:
    with pytest.raises(FieldErrorsError) as refused:
        parse_job(job(comand=["x"], time_limits="1h", **SOME))
    assert [one.message for one in refused.value.errors[:2]] == [
        'is not a known field; did you mean "command"?',
        'is not a known field; did you mean "time_limit"?',
    ]
