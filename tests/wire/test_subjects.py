"""Subjects: any name becomes one safe token, and different names different ones."""

import re
from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from gangline_wire import streams, subjects

TOKEN = re.compile(r"[A-Za-z0-9_\-=]+", re.ASCII)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_becomes_a_token_that_tells_it_apart(name: str) -> None:
    token = subjects.token(name)
    assert TOKEN.fullmatch(token)
    back = "" if token == "=" else unquote(token.replace("=", "%"))
    assert back == name


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 10**9))
def test_no_name_can_leave_its_place_in_a_subject(name: str, job: int) -> None:
    assert subjects.samples(name).count(".") == 2
    assert subjects.output(job, name).split(".")[:3] == ["gangline", "output", str(job)]
    assert subjects.event(name, job=job, name="Admitted").split(".")[3:] == [str(job), "Admitted"]


def test_every_stream_holds_the_subjects_that_are_written_to_it() -> None:
    def holds(stream: streams.Stream, subject: str) -> bool:
        return any(subject.startswith(pattern.removesuffix(">")) for pattern in stream.subjects)

    assert holds(streams.LOG, subjects.log("queue.default"))
    assert holds(streams.OUTPUT, subjects.output(42, "42-1-worker-0"))
    assert holds(streams.EVENTS, subjects.event("research/vision", job=42, name="Admitted"))


def test_no_bus_limit_is_left_open() -> None:
    assert all(stream.bytes_max > 0 for stream in streams.STREAMS)
    assert all(bucket.bytes_max > 0 for bucket in streams.BUCKETS)
