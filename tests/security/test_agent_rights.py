"""An agent's bus user that fell into wrong hands: everything but its own work is tried, and nothing of it happens."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from tests.patience import LONG_S

from gangline_core import facts as f
from gangline_embedded.keys import make_keys
from gangline_kit.bus import Bus, BusConfig, jetstream
from gangline_kit.bus.tail import LogMessage
from gangline_kit.clock import SystemClock
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.ids import SystemIds
from gangline_kit.nats_server import NatsServer, NatsUser, authorization
from gangline_recorder.told import read_told
from gangline_wire import codec, subjects
from gangline_wire.envelope import Batch
from gangline_wire.rights import STORES
from gangline_wire.stored import STRAY, message
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


TARGETS = (
    subjects.log("admission"),
    subjects.log("agent.n2"),
    f"$KV.{LEASES.name}.admission",
    f"$KV.{SECRETS.name}.1",
    f"$O.{SNAPSHOTS}.M.forged",
    subjects.event("lab", job=1, name="Succeeded"),
    *(f"$JS.API.STREAM.{verb}.{LOG.name}" for verb in ("PURGE", "DELETE", "UPDATE")),
    f"$JS.API.STREAM.DELETE.KV_{LEASES.name}",
)
"""Where an agent may not publish; as the place to which a consumer of its making delivers, it may name them."""
FORGED = codec.encode(Batch(lane="admission", epoch=9, seq_seen=0, at=1, facts=(f.LeadershipTaken(holder="me"),)))


@pytest.mark.parametrize("listens", [False, True], ids=["nobody listens", "somebody listens to each by its name"])
async def test_what_an_agent_has_the_server_deliver_changes_nothing_that_is_another_s(
    tmp_path: Path, listens: bool
) -> None:
    """Where nobody listens by name the server delivers nothing; else what it stores stands on no lane, key or event."""
    users = (*make_keys(tmp_path / "keys", SystemIds(), agents=("n1",)), NatsUser(name="watcher", password="w"))
    passwords = {user.name: user.password for user in users}
    server = NatsServer(tmp_path / "nats", sync_always=False, users=users)
    await server.start()
    watcher = await connected(server, "watcher", "w")
    await watcher.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    await watcher.append(subjects.log("admission"), b"true")
    await watcher.kv(LEASES.name).create("admission", b"theirs")
    heard, all_heard = set[str](), asyncio.Event()

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.add(subject)
        if len(heard) == len(TARGETS):
            all_heard.set()

    for target in TARGETS if listens else ():
        await watcher.subscribe(target, hear)
    agent = await connected(server, "agent-n1", passwords["agent-n1"])
    for number, target in enumerate(TARGETS):
        source = f"gangline.output.{number}.t"
        # The expectation, which is true of the target's subject as well, goes along with the message.
        await agent.append(source, FORGED, expected_seq=0)
        config = {"deliver_subject": target, "ack_policy": "none", "filter_subject": source, "deliver_policy": "all"}
        made = {"stream_name": OUTPUT.name, "config": config}
        await jetstream.call(agent.connection, f"CONSUMER.CREATE.{OUTPUT.name}", made)
    async with asyncio.timeout(LONG_S):
        await (all_heard.wait() if listens else asyncio.sleep(WAIT_S))
    log = await read_all(watcher, LOG.name)
    assert [each.data for each in log if each.subject.startswith(subjects.LOG)] == [b"true"]
    strays = [message(each.seq, each.data, subject=each.subject) for each in log[1:]]
    assert all(stray.parked == STRAY and not stray.facts for stray in strays)
    assert bool(strays) == listens
    assert (await read_told(watcher, window=100)).ids == frozenset()
    assert await watcher.kv(LEASES.name).get("admission") == (b"theirs", 1)
    assert await watcher.kv(SECRETS.name).names() == []
    assert await watcher.objects(SNAPSHOTS).list() == []
    await agent.close()
    await watcher.close()
    await server.stop()


async def read_all(bus: Bus, stream: str) -> list[LogMessage]:
    return [each async for each in bus.read_subject(stream, "", 1, follow=False)]


async def test_an_agent_hears_nothing_that_is_said_to_others_and_answers_nobody_else_s_questions(
    tmp_path: Path,
) -> None:
    users = make_keys(tmp_path / "keys", SystemIds(), agents=("n1", "n2"))
    passwords = {user.name: user.password for user in users}
    server = NatsServer(tmp_path / "nats", sync_always=False, users=users)
    await server.start()
    admission = await connected(server, "admission", passwords["admission"])
    await admission.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    agent = await connected(server, "agent-n1", passwords["agent-n1"])
    other = await connected(server, "agent-n2", passwords["agent-n2"])
    gateway = await connected(server, "gateway", passwords["gateway"])
    heard: list[str] = []

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.append(subject)

    async def answer(data: bytes, headers: dict[str, str]) -> bytes:
        return b"answered"

    others = ("_INBOX.>", "_INBOX.gateway.>", "_INBOX.agent-n2.>", subjects.API_ADMISSION, f"{subjects.SAMPLES}.>")
    for subject in (">", "*.>", "gangline.>", "$JS.>", "$SYS.>", "$KV.>", f"{subjects.LOG}.>", *others):
        await agent.subscribe(subject, hear)
    await agent.connection.flush()
    await admission.serve(subjects.API_ADMISSION, answer)
    assert await gateway.request(subjects.API_ADMISSION, b"{}") == b"answered"
    await other.publish(subjects.samples("n2"), b"{}")
    await admission.append(subjects.log("admission"), b"{}")
    await admission.kv(SECRETS.name).put("1", b"sealed")
    got: list[bytes] = []

    async def get(subject: str, data: bytes, headers: dict[str, str]) -> None:
        got.append(data)

    await gateway.subscribe("_INBOX.gateway.mine", get)
    await gateway.connection.flush()
    with suppress(PermanentError, TemporaryError):
        await agent.publish("_INBOX.gateway.mine", b"forged")
    await asyncio.sleep(WAIT_S)
    assert not heard
    assert not got
    for bus in (agent, other, gateway, admission):
        await bus.close()
    await server.stop()


async def test_a_wrong_password_and_no_password_open_nothing(tmp_path: Path) -> None:
    users = make_keys(tmp_path / "keys", SystemIds())
    server = NatsServer(tmp_path / "nats", sync_always=False, users=users)
    await server.start()
    for user, password in (("agent", "wrong"), ("", ""), ("nobody", users[0].password)):
        with pytest.raises((PermanentError, TemporaryError)):
            await connected(server, user, password)
    await server.stop()


async def flood(bus: Bus) -> None:
    async with asyncio.timeout(LONG_S):
        while True:
            await bus.append(subjects.log("agent.n1"), b"{}")


async def test_an_agent_whose_user_is_taken_out_of_the_brokers_list_is_cut_off_at_once_and_nobody_else(
    tmp_path: Path,
) -> None:
    """What ends a flood: the broker reads its list anew when it is told to (SIGHUP), and begins nothing anew."""
    users = make_keys(tmp_path / "keys", SystemIds(), agents=("n1", "n2"))
    passwords = {user.name: user.password for user in users}
    server = NatsServer(tmp_path / "nats", sync_always=False, users=users)
    await server.start()
    admission = await connected(server, "admission", passwords["admission"])
    await admission.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    bad = await connected(server, "agent-n1", passwords["agent-n1"])
    good = await connected(server, "agent-n2", passwords["agent-n2"])
    await bad.append(subjects.log("agent.n1"), b"{}")
    settings = tmp_path / "nats" / "nats.conf"
    left = tuple(user for user in users if user.name != "agent-n1")
    text = settings.read_text()
    assert authorization(users) in text
    settings.write_text(text.replace(authorization(users), authorization(left)))
    os.kill(server.pid, signal.SIGHUP)
    with pytest.raises((PermanentError, TemporaryError)):
        await flood(bad)
    # What the broker had of it before it was cut off is stored before what comes later.
    await admission.append(subjects.log("admission"), b"{}")
    end = await admission.last_seq(LOG.name)
    await good.append(subjects.log("agent.n2"), b"{}")
    await admission.append(subjects.log("admission"), b"{}")
    assert await admission.last_seq(LOG.name) == end + 2, "nothing of it comes any more"
    with pytest.raises((PermanentError, TemporaryError)):
        await connected(server, "agent-n1", passwords["agent-n1"])
    for bus in (good, admission):
        await bus.close()
    with suppress(PermanentError, TemporaryError, TimeoutError):
        await bad.close()
    await server.stop()
