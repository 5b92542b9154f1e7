"""A replay decides everything again to the byte, or shows the first place where it does not."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.lab.busy_cluster import BusyCluster
from tests.lab.logged import write_archive

from gangline_core import facts as f
from gangline_core.fold import Message
from gangline_lab.archive import segments
from gangline_lab.difference import first_difference
from gangline_lab.replay import replay
from gangline_wire.codec import decode_batch, encode
from gangline_wire.stored import message


@pytest.fixture(scope="module")
def busy() -> BusyCluster:
    """A log of a few hundred messages with every kind of decision in it."""
    return BusyCluster(seed=7).live(120)


def changed(log: list[Message], seq: int, *facts: f.Fact) -> list[Message]:
    """The log with other facts in one message, chained anew when written."""
    batch = replace(decode_batch(log[seq - 1].raw), facts=facts)
    return [*log[: seq - 1], message(seq, encode(batch)), *log[seq:]]


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_whatever_happens_to_a_cluster_its_replay_is_equal(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    cluster = BusyCluster(seed).live()
    report = replay(cluster.write(tmp_path_factory.mktemp("archive"), segment_messages=50))
    assert report.difference is None
    assert report.equal
    assert report.head == cluster.state.kept.digest
    assert report.messages == len(cluster.log)


def test_the_report_counts_what_was_decided_again_and_what_was_only_folded(busy: BusyCluster, tmp_path: Path) -> None:
    report = replay(busy.write(tmp_path))
    assert set(report.compared) >= {"admission", "queue", "placement", "accounting"}
    assert report.compared["queue"] == report.compared["placement"]
    assert {"agent", "telemetry"} <= set(report.inputs)
    assert report.decisions + sum(report.inputs.values()) == report.messages


def test_a_decision_that_was_made_otherwise_is_shown_with_both_sides_and_the_state(
    busy: BusyCluster, tmp_path: Path
) -> None:
    decided = next(told for told in busy.log if isinstance(told.facts[0], f.RoundDecided) and told.facts[0].placements)
    fact = decided.facts[0]
    assert isinstance(fact, f.RoundDecided)
    placed = fact.placements[0]
    other = replace(placed, port=placed.port + 1)
    forged = replace(fact, placements=(other, *fact.placements[1:]))
    report = replay(write_archive(tmp_path, changed(busy.log, decided.seq, forged)))
    difference = report.difference
    assert difference is not None
    assert not report.equal
    assert (difference.seq, difference.lane) == (decided.seq, "placement.default")
    assert difference.path == "facts[0].placements[0].port"
    assert (difference.written_here, difference.decided_here) == (str(other.port), str(placed.port))
    assert difference.state.seq == difference.seq_seen
    assert placed.job in {line.job for line in difference.state.jobs}
    assert difference.state.open_rounds == {"default": fact.round}
    assert msgspec.json.decode(difference.written) != msgspec.json.decode(difference.decided)


def test_a_broken_chain_ends_the_replay_before_the_fault_is_folded(busy: BusyCluster, tmp_path: Path) -> None:
    archive = busy.write(tmp_path, segment_messages=20)
    file = segments(archive)[2]
    sound = file.read_bytes()
    position = sound.index(b"facts") + 2
    file.write_bytes(sound[:position] + b"X" + sound[position + 1 :])
    report = replay(archive)
    assert not report.equal
    assert report.fault is not None
    assert (report.fault.segment, report.fault.line, report.fault.seq) == (file.name, 1, 41)
    assert report.messages == 0


def test_a_decision_cannot_claim_to_have_seen_what_came_later(busy: BusyCluster, tmp_path: Path) -> None:
    batch = replace(decode_batch(busy.log[0].raw), seq_seen=1)
    report = replay(write_archive(tmp_path, [message(1, encode(batch)), *busy.log[1:]]))
    assert report.fault is not None
    assert (report.fault.line, report.fault.seq) == (1, 1)
    assert "not before it" in report.fault.problem


def test_a_folder_without_an_archive_is_a_fault(tmp_path: Path) -> None:
    report = replay(tmp_path)
    assert report.fault is not None
    assert "no segment" in report.fault.problem


def test_progress_goes_from_nothing_to_all_over_both_passes(busy: BusyCluster, tmp_path: Path) -> None:
    told: list[float] = []
    replay(busy.write(tmp_path), progress=lambda done, total: told.append(done / total))
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ([1, 2], [1, 3], ("x[1]", "2", "3")),
        ([1], [1, 2], ("x[1]", "(absent)", "2")),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ("x.a.b", "1", "2")),
        ({"a": 1}, {"b": 1}, ("x.a", "1", "(absent)")),
        ([{"a": [1]}], [{"a": [1, 2]}], ("x[0].a[1]", "(absent)", "2")),
        ({"a": 1}, [1], ("x", '{"a": 1}', "[1]")),
    ],
)
def test_the_first_difference_of_two_values_is_named_by_its_path(
    left: object, right: object, found: tuple[str, str, str]
) -> None:
    assert first_difference(left, right, "x") == found
