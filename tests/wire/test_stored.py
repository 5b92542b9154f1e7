"""What stands in the log and does not belong there counts for nothing, and every reader finds the same."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Gpu, Node
from gangline_core.fold import apply, chain
from gangline_core.groups import Token
from gangline_core.state import State
from gangline_wire import codec, subjects
from gangline_wire.archive import decode_line, encode_line
from gangline_wire.depth import NESTING_MAX, is_too_deep
from gangline_wire.envelope import Batch
from gangline_wire.stored import AHEAD_MS_MAX, STRAY, UNREADABLE, message, noted

NOW = 1_700_000_000_000
SUBJECT = subjects.log("agent.n1")


def batch(*facts: f.Fact, lane: str = "agent.n1", at: int = NOW) -> bytes:
    return codec.encode(Batch(lane=lane, epoch=1, seq_seen=0, at=at, facts=facts))


ISSUED = f.TokenIssued(token=Token(digest="d" * 64, name="own", role="admin", user="eve"), by="eve")
SEEN = f.NodeSeen(node=node("n1", agent="n1"))


NESTED = b'{"lane":"agent.n1","epoch":1,"seq_seen":0,"at":5,"facts":[],"more":%b}'


def fold(data: bytes, subject: str = SUBJECT) -> tuple[State, list[str]]:
    state = State()
    return state, apply(state, message(1, data, subject=subject, stored_ms=NOW), strict=True).alarms


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"not a batch", "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b'{"lane":"agent.n1","epoch":1,"seq_seen":0,"at":1,"facts":[{"fact":"Nonsense"}]}', "cannot be read"),
        (batch(f.LeadershipTaken(holder="me")).replace(b'"v":1', b'"v":9'), "cannot be read"),
        (batch(f.LeadershipTaken(holder="me")).replace(b'"v":1', b'"v":0'), "cannot be read"),
        (batch(ISSUED), "must not carry TokenIssued"),
        (batch(SEEN, ISSUED), "must not carry TokenIssued"),
        (batch(ISSUED, lane="admission"), "says it is of lane admission"),
        (batch(SEEN, lane="agent.n2"), "says it is of lane agent.n2"),
        (b"[" * 3_000_000, "cannot be read"),
        (NESTED % (b"[" * 5_000 + b"]" * 5_000), "cannot be read"),
        (NESTED % (b'[{"a":' * 900 + b"1" + b"}]" * 900), "cannot be read"),
    ],
)
def test_what_an_agent_must_not_say_changes_nothing_and_raises_an_alarm(data: bytes, why: str) -> None:
    state, alarms = fold(data)
    assert len(alarms) == 1
    assert why in alarms[0]
    assert not state.kept.tokens
    assert not state.kept.nodes
    assert state.kept.seq == 1
    assert state.kept.lane_seqs == {"agent.n1": 1}


def test_rubbish_on_the_lane_of_a_service_is_parked_and_facts_of_a_newer_build_are_not() -> None:
    _, alarms = fold(b"rubbish", subjects.log("queue.default"))
    assert len(alarms) == 1
    newer = b'{"lane":"queue.default","epoch":1,"seq_seen":0,"at":1,"facts":[{"fact":"ComesLater"}]}'
    with pytest.raises(codec.CodecError):
        fold(newer, subjects.log("queue.default"))
    with pytest.raises(codec.SchemaError, match="upgrade first"):
        fold(batch(lane="queue.default").replace(b'"v":1', b'"v":9'), subjects.log("queue.default"))


def test_the_time_of_an_agent_that_is_far_ahead_is_the_servers() -> None:
    state, alarms = fold(batch(SEEN, at=1 << 60))
    assert not alarms
    assert state.kept.at == NOW + AHEAD_MS_MAX
    assert state.kept.nodes["n1"].seen_ms == NOW + AHEAD_MS_MAX
    near = fold(batch(SEEN, at=NOW + AHEAD_MS_MAX))[0]
    assert near.kept.at == NOW + AHEAD_MS_MAX


@given(
    st.one_of(
        st.binary(max_size=60),
        st.sampled_from([batch(SEEN), batch(ISSUED), batch(SEEN, at=1 << 60), batch(ISSUED, lane="admission")]),
    )
)
def test_an_archive_tells_of_a_message_what_the_log_told(data: bytes) -> None:
    told = message(1, data, subject=SUBJECT, stored_ms=NOW)
    line = decode_line(encode_line(told, head=chain("", told.raw, told.note)))
    assert line.raw == data
    assert line.message == told
    assert chain("", line.raw, line.note) == line.hash


def test_a_note_cannot_be_taken_away_or_added_unseen() -> None:
    told = message(1, batch(ISSUED), subject=SUBJECT, stored_ms=NOW)
    assert told.note
    assert chain("", told.raw, "") != chain("", told.raw, told.note)
    with pytest.raises(codec.CodecError, match="the note is none"):
        noted(1, told.raw, "{}x")


@pytest.mark.parametrize(
    "described",
    [
        node("n1", agent="n1", pool="h100.eu"),
        node("n1", agent="n1", pool=""),
        replace(node("n1", agent="n1"), gpus=(Gpu(index=-1, model="A100", memory_mib=1),)),
        replace(node("n1", agent="n1"), gpus=(Gpu(index=1 << 40, model="A100", memory_mib=1),)),
        replace(node("n1", agent="n1"), gpus=(Gpu(index=0, model="A", memory_mib=1),) * 2),
        replace(node("n1", agent="n1"), memory_mib=1 << 60),
    ],
)
def test_a_machine_that_cannot_be_is_none(described: Node) -> None:
    state, alarms = fold(batch(f.NodeSeen(node=described)))
    assert len(alarms) == 1
    assert not state.kept.nodes
    assert set(state.kept.pools) == {"default"}


def test_a_fact_that_its_handler_cannot_take_ends_no_fold() -> None:
    state = State()
    broken = f.RoundOpened(pool="nowhere", round=1, candidates=(), terms=(), kept_out=(), given_up=(), waiting=0)
    data = codec.encode(Batch(lane="queue.nowhere", epoch=1, seq_seen=0, at=NOW, facts=(broken,)))
    step = apply(state, message(1, data, subject=subjects.log("queue.nowhere"), stored_ms=NOW))
    assert len(step.alarms) == 1
    assert "KeyError" in step.alarms[0]


def two_agents() -> tuple[World, f.Fact]:
    """A job's task runs on a node of agent sim."""
    world = World(node("n1", gpus=2))
    job = world.submit_running(spec(gpus=1), ("n1", [0]))
    return world, world.job(job).tasks[0]


@pytest.mark.parametrize("says", ["started", "exited", "empty", "seen", "paused", "safe", "confirmed"])
def test_an_agent_says_nothing_about_nodes_and_tasks_of_others(says: str) -> None:
    world, task = two_agents()
    before = msgspec.json.encode(world.state.kept.jobs), msgspec.json.encode(world.state.kept.nodes)
    fact = {
        "started": f.TaskStarted(task=task),
        "exited": f.TaskExited(task=task, cause=f.ExitCause.EXITED, exit_code=0),
        "empty": f.GpusEmpty(tasks=(task,)),
        "seen": f.NodeSeen(node=node("n1", gpus=8, agent="evil")),
        "paused": f.TaskPaused(task=task),
        "safe": f.MemberSafe(task=task),
        "confirmed": f.ResizeConfirmed(job=1, number=1, size=1),
    }[says]
    step = world.tell("agent.evil", fact)
    assert len(step.alarms) == 1
    assert "n1" in step.alarms[0] or "no task there" in step.alarms[0]
    assert (msgspec.json.encode(world.state.kept.jobs), msgspec.json.encode(world.state.kept.nodes)) == before


def test_a_lost_node_may_come_back_with_another_agent() -> None:
    world, _ = two_agents()
    world.tell("telemetry", f.NodeLost(node="n1", silent_ms=30_000))
    assert not world.tell("agent.other", f.NodeSeen(node=node("n1", gpus=2, agent="other"))).alarms
    assert world.state.kept.nodes["n1"].agent == "other"


@pytest.mark.parametrize("data", [batch(SEEN), batch(ISSUED, lane="admission"), b"x", b'{"lane":"admission","v":9}'])
@pytest.mark.parametrize("subject", ["gangline.output.1.t", "gangline.logs.agent.n1", "agent.n1"])
def test_what_stands_in_the_log_under_no_lane_of_it_counts_for_nothing(data: bytes, subject: str) -> None:
    """A consumer that delivers to a lane has the messages of another stream stored, under the subjects they had."""
    state, alarms = fold(data, subject)
    assert STRAY in alarms[0]
    assert (state.kept.nodes, state.kept.tokens, state.kept.lane_seqs) == ({}, {}, {"": 1})
    entry = message(1, data, subject=subject, stored_ms=NOW)
    line = decode_line(encode_line(entry, head="ab"))
    assert noted(1, line.raw, line.note) == entry


@pytest.mark.parametrize("depth", [NESTING_MAX - 1, NESTING_MAX, 400, 900])
def test_how_deep_a_message_may_be_does_not_depend_on_who_reads_it(depth: int) -> None:
    """A reader whose own stack is deep gives up earlier than others: they would know another state from then on."""
    data = NESTED % (b"[" * depth + b"]" * depth)

    def read(below: int) -> str:
        return read(below - 1) if below else message(1, data, subject=SUBJECT, stored_ms=NOW).parked

    told = {read(below) for below in (0, 100, 300)}
    assert told == ({""} if depth < NESTING_MAX else {UNREADABLE})


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=200))
def test_no_text_of_pairs_is_too_deep_before_it_is(value: object) -> None:
    assert is_too_deep(msgspec.json.encode(value)) == (depth_of(value) > NESTING_MAX)


@given(st.text(alphabet='[]{}"\\\n\u00e4 '), st.integers(0, NESTING_MAX + 5))
def test_brackets_inside_of_texts_count_for_nothing(text: str, depth: int) -> None:
    value: object = [text, {text: text * 50}]
    for _ in range(depth):
        value = [value]
    assert is_too_deep(msgspec.json.encode(value)) == (depth + 2 > NESTING_MAX)


def depth_of(value: object) -> int:
    if not isinstance(value, list | dict):
        return 0
    inside = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, inside), default=0)


@pytest.mark.parametrize("at", [-1, -(10**15), -(10**30)])
def test_a_time_before_all_times_stops_nobody_who_works_with_it(at: int) -> None:
    """The end of a task at such a time would be no number of a column: placement ended, again after each start."""
    world = World(node("n1", agent="n1"))
    job = world.submit_running(spec(gpus=8), "n1")
    [task] = world.tasks(job)
    ended = f.TaskExited(task=task.id, cause=f.ExitCause.EXITED, exit_code=0)
    entry = message(world.state.kept.seq + 1, batch(ended, at=at), subject=SUBJECT, stored_ms=NOW)
    assert entry.at == 0
    assert noted(entry.seq, entry.raw, entry.note) == entry
    apply(world.state, entry, strict=True)
    world.submit(gpus=8)
    assert world.wait(10).round() is not None
