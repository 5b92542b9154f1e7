"""Before the task starts that listens for its gang the port is looked at: whoever else has it is told of."""

import socket
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.services.agent.rig import an_order, rig, some_orders

from gangline_agent import meeting
from gangline_agent.environment import port_kept_by
from gangline_agent.journal import Intent
from gangline_core.facts import ExitCause, TaskExited
from gangline_core.ids import JobId, TaskId
from gangline_core.room.ports import FIRST_PORT
from gangline_kit.carrying.reconcile import decide

INTENT = Intent(task=TaskId("1-1-w-0"), job=JobId(1), placed_ms=5, stop_signal=15, grace_s=30)


def a_port(host: str) -> socket.socket:
    """A port that nobody else is given while this is open, on which nothing listens."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((host, 0))
    return held


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_a_port_is_taken_while_something_listens_there(host: str) -> None:
    with a_port(host) as held:
        port = held.getsockname()[1]
        assert meeting.taken(port) == ()
        with socket.create_server((host, port)):
            assert meeting.taken(port)[0] == port
        assert meeting.taken(port) == ()


def test_a_port_on_which_an_earlier_gang_met_is_free_at_once() -> None:
    with a_port("127.0.0.1") as held:
        place = held.getsockname()
        with socket.create_server(place) as server, socket.create_connection(place):
            server.accept()[0].close()
        assert meeting.taken(place[1]) == (), "the kernel remembers the connection, and listening is allowed"


def test_the_ports_after_one_that_is_taken_are_looked_at_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    last = 29500 + meeting.LOOKED_AT - 1
    monkeypatch.setattr(meeting, "_is_taken", {29500, 29502, last, last + 1}.__contains__)
    assert meeting.taken(29500) == (29500, 29502, last)
    assert meeting.taken(29501) == ()


def test_only_whoever_listens_for_a_gang_or_for_its_own_processes_keeps_a_port() -> None:
    assert [port_kept_by(order) for order in some_orders("true", tasks=3)] == [FIRST_PORT, 0, 0]
    assert port_kept_by(an_order("true", gpus=2)) == FIRST_PORT
    assert port_kept_by(an_order("true", gpus=1)) == port_kept_by(an_order("true")) == 0


async def test_a_task_whose_port_is_taken_is_not_started_and_its_place_is_refused(tmp_path: Path) -> None:
    first, second = some_orders("/bin/echo", "started", tasks=2)
    asked: list[int] = []

    def taken(port: int) -> tuple[int, ...]:
        asked.append(port)
        return (port, port + 2)

    async with rig(tmp_path) as made:
        made.runner.around = replace(made.runner.around, taken=taken)
        local, other = await made.finish(first), await made.finish(second)
        assert (local.cause, local.started, local.ports) == (ExitCause.PLACE_REFUSED, False, (29500, 29502))
        assert "could not start: something else listens on port 29500" in made.output(first)
        assert (other.cause, other.exit_code, asked) == (ExitCause.EXITED, 0, [FIRST_PORT])
    async with rig(tmp_path) as again:
        assert again.runner.known[first.task.id].ports == (29500, 29502), "a restarted agent knows as well"
        known = decide({first.task.id: first.task}, again.runner.known, [first.task.id])
    ended = known.facts[0]
    assert isinstance(ended, TaskExited)
    assert (ended.cause, ended.ports) == (ExitCause.PLACE_REFUSED, (29500, 29502))


def test_a_task_that_was_stopped_meanwhile_is_told_as_stopped() -> None:
    stopped = replace(INTENT, stop_cause=ExitCause.STOPPED)
    assert meeting.refused(stopped, meeting.PortTakenError((29500,))) == stopped
    assert meeting.refused(INTENT, OSError()) == INTENT


def test_where_no_port_is_free_the_start_has_failed_so_that_tries_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "_is_taken", lambda port: True)
    ports = meeting.taken(29500)
    all_taken = meeting.refused(INTENT, meeting.PortTakenError(ports))
    assert (all_taken.stop_cause, all_taken.ports) == (None, ports)
    some = meeting.refused(INTENT, meeting.PortTakenError(ports[:-1]))
    assert (some.stop_cause, some.ports) == (ExitCause.PLACE_REFUSED, ports[:-1])
