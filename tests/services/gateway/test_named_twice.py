"""A name that stands twice in one object of a body is refused with its path: nobody guesses which of two was meant."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.gateway.conftest import Visitor

from gangline_gateway.named_twice import named_twice

TYPE = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/jobs", '{"command": ["a"], "command": ["b"]}', "command"),
        ("POST", "/v1/jobs", '{"command":["a"],"time_limit":"1h","time_limit":"9h"}', "time_limit"),
        ("POST", "/v1/jobs", '{"command" :["a"],"command"\t\n: ["b"]}', "command"),
        ("POST", "/v1/jobs", '{"command":["a"],"env":{"A":"1","\\u0041":"2"}}', "env.A"),
        ("POST", "/v1/jobs", '{"command":["\\u0022:"],"gpus":1,"gpus":2}', "gpus"),
        ("POST", "/v1/jobs:batch", '{"jobs":[{"command":["a"]},{"command":["a"],"cpus":1,"cpus":1}]}', "jobs[1].cpus"),
        ("PUT", "/v1/groups/t1", '{"path":"t1","limit":{"gpu_milli":1000,"gpu_milli":2000}}', "limit.gpu_milli"),
        ("PUT", "/v1/settings", '{"groups":{"t1":{},"t1":{}}}', "groups.t1"),
        ("PATCH", "/v1/jobs/1", '{"priority":1,"priority":2}', "priority"),
    ],
)
async def test_a_name_that_stands_twice_is_refused_with_its_path_and_changes_nothing(
    visitor: Visitor, method: str, path: str, body: str, field: str
) -> None:
    await visitor.submit("una")
    before = visitor.setting.world.state.kept.seq
    problem = await visitor.ask("admin", method, path, status=422, data=body, headers=TYPE)
    assert [(error["path"], error["message"]) for error in problem["errors"]] == [(field, "stands twice")]
    assert visitor.setting.world.state.kept.seq == before


NAMES = st.sampled_from(["a", "b", '":', " :", "é", "\n"])
OBJECTS = st.recursive(
    st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.none(), NAMES),
    lambda below: st.one_of(st.lists(below, max_size=3), st.lists(st.tuples(NAMES, below), max_size=3).map(tuple)),
    max_leaves=12,
)
"""Documents whose objects are tuples of pairs, so that a name may come twice."""
SPACES = st.sampled_from(["", " ", "\n", "\t "])


def written(value: object, space: str, *, plain: bool) -> str:
    if isinstance(value, tuple):
        pairs = (f"{json.dumps(k, ensure_ascii=plain)}{space}:{written(v, space, plain=plain)}" for k, v in value)
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(entry, space, plain=plain) for entry in value) + "]"
    return json.dumps(value, ensure_ascii=plain)


def has_twice(value: object) -> bool:
    if isinstance(value, tuple):
        return len({name for name, _ in value}) < len(value) or any(has_twice(below) for _, below in value)
    return isinstance(value, list) and any(has_twice(below) for below in value)


@given(OBJECTS, SPACES, st.booleans())
def test_exactly_documents_in_which_a_name_stands_twice_are_found(value: object, space: str, plain: bool) -> None:
    body = written(value, space, plain=plain).encode()
    assert (named_twice(body, msgspec.json.decode(body)) is not None) == has_twice(value)


def test_many_names_and_long_numbers_are_no_trouble() -> None:
    body = ("{" + ",".join(f'"{k} :":{"9" * 5000}' for k in range(200)) + ',"0 :":1}').encode()
    assert named_twice(body, {}) == "0 :"
    large = ("{" + ",".join(f'"{k}":1' for k in range(200_000)) + ',"7":1}').encode()
    assert named_twice(large, msgspec.json.decode(large)) == "7"
