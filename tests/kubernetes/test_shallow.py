"""Of a text that is nested too deeply only that part is left out, and no other text is changed."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gangline_kubernetes.shallow import DEPTH_MAX, read, shallow

TEXT = st.one_of(st.text(max_size=8), st.sampled_from(['"', "\\", '\\"', "[", "}", '{"a":[', "\\\\"]))
VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=12,
)
ANY = msgspec.json.Decoder()


@given(VALUE)
def test_a_text_of_usual_depth_stays_what_it_is(value: object) -> None:
    data = json.dumps(value).encode()
    assert shallow(data) == data
    assert read(ANY, data) == value


@given(VALUE, VALUE, VALUE, st.integers(min_value=20_000, max_value=20_100))
def test_what_stands_beside_something_deep_is_read(before: object, within: object, after: object, depth: int) -> None:
    opened, closed = '{"a":[' * (depth // 2), "]}" * (depth // 2)
    first, inner, last = (json.dumps(one) for one in (before, within, after))
    data = f'{{"before":{first},"deep":{opened}{inner}{closed},"after":{last}}}'.encode()
    found = read(ANY, data)
    assert (found["before"], found["after"]) == (before, after)
    one = found["deep"]
    for _ in range(DEPTH_MAX - 1):
        one = one["a"] if isinstance(one, dict) else one[0]
    assert one is None


@given(st.binary(max_size=200), st.integers(min_value=0, max_value=400))
def test_whatever_is_no_json_is_refused_as_such(rest: bytes, depth: int) -> None:
    try:
        read(ANY, b"[" * depth + rest)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
