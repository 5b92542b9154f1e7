"""An agent's bus user that fell into wrong hands: everything but its own work is tried, and nothing of it happens."""

import asyncio
from pathlib import Path

import pytest

from gangline_embedded.keys import make_keys
from gangline_kit.bus import Bus, BusConfig, jetstream
from gangline_kit.clock import SystemClock
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.ids import SystemIds
from gangline_kit.nats_server import NatsServer
from gangline_wire import subjects
from gangline_wire.rights import STORES
from gangline_wire.streams import BUCKETS, EVENTS, LEASES, LOG, OUTPUT, SECRETS, SNAPSHOTS, STREAMS

pytestmark = pytest.mark.bus

WAIT_S = 0.4
VERBS = ("DELETE", "PURGE", "UPDATE", "CREATE", "MSG.DELETE", "SNAPSHOT", "RESTORE", "LEADER.STEPDOWN", "PEER.REMOVE")
OTHERS_LEASES = ("admission", "queue.default", "placement.default", "scheduler.default.1", "elastic.default")
FORBIDDEN = (
    *(subjects.log(lane) for lane in ("admission", "queue.default", "placement.default", "elastic.default")),
    *(
        subjects.log(lane)
        for lane in ("telemetry", "accounting", "kubernetes.c", "scheduler.default.1", "new", "agent")
    ),
    *(f"$KV.{LEASES.name}.{lane}" for lane in (*OTHERS_LEASES, "telemetry", "accounting", "kubernetes.c")),
    subjects.API_ADMISSION,
    subjects.API_HISTORY,
    subjects.event("lab", job=1, name="Succeeded"),
    f"$KV.{SECRETS.name}.1",
    *(f"$JS.API.STREAM.{verb}.{store}" for verb in VERBS for store in STORES),
    *(f"$JS.API.CONSUMER.{verb}.{LOG.name}.theirs" for verb in ("DELETE", "INFO", "MSG.NEXT", "DURABLE.CREATE")),
    "$JS.API.STREAM.CREATE.MINE",
    "$JS.API.INFO",
    "$JS.API.META.LEADER.STEPDOWN",
    f"$JS.API.STREAM.MSG.GET.{EVENTS.name}",
    f"$O.{SNAPSHOTS}.M.forged",
    "$JS.API.STREAM.LIST",
    "$JS.API.ACCOUNT.PURGE.gangline",
    "$SYS.REQ.SERVER.PING",
)


async def connected(server: NatsServer, user: str, password: str) -> Bus:
    return await Bus.connect(BusConfig(url=server.url, user=user, password=password, name=user), SystemClock())


OF_ANOTHER = (subjects.log("agent.n2"), f"$KV.{LEASES.name}.agent.n2", subjects.samples("n2"))
"""What is another agent's: the user that all agents may share writes it, that of one agent does not."""


@pytest.mark.parametrize(("user", "further"), [("agent", ()), ("agent-n1", OF_ANOTHER)])
async def test_an_agent_in_wrong_hands_does_an_agents_work_and_nothing_else(
    tmp_path: Path, user: str, further: tuple[str, ...]
) -> None:
    users = make_keys(tmp_path / "keys", SystemIds(), agents=("n1",))
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
    agent = await connected(server, user, passwords[user])
    assert await agent.append(subjects.log("agent.n1"), b"{}") == 2
    assert await agent.kv(LEASES.name).create("agent.n1", b"me") == 1
    forbidden = (*FORBIDDEN, *further)
    tries = (agent.connection.request(subject, b"{}", timeout_s=WAIT_S) for subject in forbidden)
    answers = await asyncio.gather(*tries, return_exceptions=True)
    for subject, got in zip(forbidden, answers, strict=True):
        assert isinstance(got, PermanentError | TemporaryError), f"{subject} was answered: {got}"
    # The server publishes what a consumer delivers, wherever its maker says: nobody answers that.
    await agent.append("gangline.output.1.t", b"forged")
    config = {"deliver_subject": subjects.API_ADMISSION, "ack_policy": "none"}
    for group in ({}, {"deliver_group": subjects.API_ADMISSION}):
        made = {"stream_name": OUTPUT.name, "config": {**config, **group}}
        await jetstream.call(agent.connection, f"CONSUMER.CREATE.{OUTPUT.name}", made)
    await asyncio.sleep(WAIT_S)
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
