"""An agent's bus user that fell into wrong hands: everything but its own work is tried, and nothing of it happens."""

import asyncio
from pathlib import Path

import pytest

from gangline_embedded.keys import make_keys
from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.ids import SystemIds
from gangline_kit.nats_server import NatsServer
from gangline_wire import subjects
from gangline_wire.streams import BUCKETS, EVENTS, LOG, SECRETS, SNAPSHOTS, STREAMS

pytestmark = pytest.mark.bus

WAIT_S = 0.4
FORBIDDEN = (
    *(subjects.log(lane) for lane in ("admission", "queue.default", "placement.default", "elastic.default")),
    *(subjects.log(lane) for lane in ("telemetry", "accounting", "kubernetes.c")),
    subjects.API_ADMISSION,
    subjects.API_HISTORY,
    subjects.event("lab", job=1, name="Succeeded"),
    f"$KV.{SECRETS.name}.1",
    *(f"$JS.API.STREAM.{verb}.{LOG.name}" for verb in ("DELETE", "PURGE", "UPDATE", "CREATE", "MSG.DELETE")),
    *(f"$JS.API.STREAM.{verb}.KV_{SECRETS.name}" for verb in ("DELETE", "PURGE", "UPDATE")),
    *(f"$JS.API.STREAM.{verb}.OBJ_{SNAPSHOTS}" for verb in ("DELETE", "PURGE", "UPDATE")),
    f"$JS.API.STREAM.MSG.GET.{EVENTS.name}",
    f"$O.{SNAPSHOTS}.M.forged",
    "$JS.API.STREAM.LIST",
    "$JS.API.ACCOUNT.PURGE.gangline",
    "$SYS.REQ.SERVER.PING",
)


async def connected(server: NatsServer, user: str, password: str) -> Bus:
    return await Bus.connect(BusConfig(url=server.url, user=user, password=password, name=user), SystemClock())


async def test_an_agent_in_wrong_hands_does_an_agents_work_and_nothing_else(tmp_path: Path) -> None:
    users = make_keys(tmp_path / "keys", SystemIds())
    passwords = {user.name: user.password for user in users}
    server = NatsServer(tmp_path / "nats", sync_always=False, users=users)
    await server.start()
    admission = await connected(server, "admission", passwords["admission"])
    await admission.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    asked: list[bytes] = []

    async def answer(data: bytes, headers: dict[str, str]) -> bytes:
        asked.append(data)
        return b"done"

    await admission.serve(subjects.API_ADMISSION, answer)
    await admission.append(subjects.log("admission"), b"{}")
    agent = await connected(server, "agent", passwords["agent"])
    assert await agent.append(subjects.log("agent.n1"), b"{}") == 2
    tries = (agent.connection.request(subject, b"{}", timeout_s=WAIT_S) for subject in FORBIDDEN)
    answers = await asyncio.gather(*tries, return_exceptions=True)
    for subject, got in zip(FORBIDDEN, answers, strict=True):
        assert isinstance(got, PermanentError | TemporaryError), f"{subject} was answered: {got}"
    assert not asked
    assert await admission.last_seq(LOG.name) == 2
    assert await admission.message_at(LOG.name, 1) == b"{}"
    assert (await admission.stream_info(EVENTS.name)).state.last_seq == 0
    await agent.close()
    await admission.close()
    await server.stop()


async def test_a_wrong_password_and_no_password_open_nothing(tmp_path: Path) -> None:
    users = make_keys(tmp_path / "keys", SystemIds())
    server = NatsServer(tmp_path / "nats", sync_always=False, users=users)
    await server.start()
    for user, password in (("agent", "wrong"), ("", ""), ("nobody", users[0].password)):
        with pytest.raises((PermanentError, TemporaryError)):
            await connected(server, user, password)
    await server.stop()
