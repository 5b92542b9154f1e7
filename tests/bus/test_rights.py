"""The server holds every service to its rights: its own lane and subjects; sealed values only where tasks start."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import nats
import pytest
import pytest_asyncio

from gangline_embedded.keys import make_keys
from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_kit.errors import PermanentError
from gangline_kit.ids import SystemIds
from gangline_kit.nats_server import NatsServer
from gangline_wire import subjects
from gangline_wire.rights import OWN, READER
from gangline_wire.streams import BUCKETS, EVENTS, LEASES, LOG, SECRETS, SNAPSHOTS, STREAMS

pytestmark = pytest.mark.bus

DENIED_S = 60.0
"""Whoever is refused hears of it at once, on the side."""
READ_SECRETS = f"$JS.API.STREAM.MSG.GET.KV_{SECRETS.name}"
LANES = {
    "admission": "admission",
    "queue": "queue.default",
    "placement": "placement.default",
    "elastic": "elastic.default",
    "telemetry": "telemetry",
    "accounting": "accounting",
    "agent": "agent.node-1",
    "kubernetes": "kubernetes.east",
}

Connect = Callable[[str], Awaitable[Bus]]


@pytest_asyncio.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """Connects as a service to a server that knows the services' rights."""
    users = make_keys(tmp_path / "keys", SystemIds())
    passwords = {user.name: user.password for user in users}
    server = NatsServer(tmp_path / "nats", sync_always=False, users=users)
    await server.start()
    opened: list[Bus] = []

    async def open_as(service: str) -> Bus:
        config = BusConfig(url=server.url, user=service, password=passwords[service], name=service)
        bus = await Bus.connect(config, SystemClock())
        opened.append(bus)
        return bus

    yield open_as
    for bus in opened:
        await bus.close()
    await server.stop()


async def test_every_service_can_make_what_is_missing_and_follow_the_log(connect: Connect) -> None:
    admission = await connect("admission")
    await admission.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    await admission.append(subjects.log("admission"), b"{}")
    for service in OWN:
        bus = await connect(service)
        await bus.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
        async for message in bus.read(LOG.name, 1):
            assert message.data == b"{}"
            break
        assert await bus.objects(SNAPSHOTS).list() == []


async def test_only_the_recorder_drops_the_beginning_of_the_log(connect: Connect) -> None:
    recorder = await connect("recorder")
    await recorder.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    admission = await connect("admission")
    ends = [await admission.append(subjects.log("admission"), b"{}") for _ in range(3)]
    for service in OWN:
        if service != "recorder":
            purging = (await connect(service)).connection.request(
                f"$JS.API.STREAM.PURGE.{LOG.name}", b'{"seq": 2}', timeout_s=DENIED_S
            )
            with pytest.raises(PermanentError, match="has no right"):
                await purging
    assert (await recorder.stream_info(LOG.name)).state.messages == 3
    await recorder.drop_until(LOG.name, ends[-1])
    assert (await recorder.stream_info(LOG.name)).state.messages == 1


async def test_only_admission_takes_sealed_values_away(connect: Connect) -> None:
    admission = await connect("admission")
    await admission.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    await admission.kv(SECRETS.name).put("1", b"v")
    for service in OWN:
        if service != "admission":
            purging = (await connect(service)).connection.request(
                f"$JS.API.STREAM.PURGE.KV_{SECRETS.name}", b"{}", timeout_s=DENIED_S
            )
            with pytest.raises(PermanentError, match="has no right"):
                await purging
    assert (await admission.stream_info(f"KV_{SECRETS.name}")).state.messages == 1
    await admission.kv(SECRETS.name).delete("1")
    assert (await admission.stream_info(f"KV_{SECRETS.name}")).state.messages == 0


async def test_a_service_writes_its_own_lane_and_no_other(connect: Connect) -> None:
    await (await connect("admission")).ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    for service in OWN:
        bus = await connect(service)
        attempts = (bus.append(subjects.log(lane), b"{}", timeout_s=DENIED_S) for lane in LANES.values())
        answers = dict(zip(LANES, await asyncio.gather(*attempts, return_exceptions=True), strict=True))
        assert [owner for owner, answer in answers.items() if isinstance(answer, int)] == [
            owner for owner in LANES if owner == service
        ]
    assert await bus.last_seq(LOG.name) == len(LANES)


async def test_a_service_touches_the_lease_of_its_own_lane_and_no_other(connect: Connect) -> None:
    await (await connect("admission")).ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    for service in OWN:
        bus = await connect(service)
        attempts = (
            bus.append(f"$KV.{LEASES.name}.{lane}", service.encode(), timeout_s=DENIED_S) for lane in LANES.values()
        )
        answers = dict(zip(LANES, await asyncio.gather(*attempts, return_exceptions=True), strict=True))
        assert [owner for owner, answer in answers.items() if isinstance(answer, int)] == [
            owner for owner in LANES if owner == service
        ]


async def test_only_those_who_start_tasks_read_sealed_values(connect: Connect) -> None:
    admission = await connect("admission")
    await admission.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    await admission.kv(SECRETS.name).put("7", b"sealed")
    starters = ("agent", "kubernetes")
    for service in starters:
        assert await (await connect(service)).kv(SECRETS.name).get("7") is not None
    for service in sorted(set(OWN) - set(starters)):
        bus = await connect(service)
        with pytest.raises(PermanentError):
            await bus.connection.request(
                f"$JS.API.STREAM.MSG.GET.KV_{SECRETS.name}",
                b'{"last_by_subj": "$KV.GANGLINE_SECRETS.7"}',
                timeout_s=DENIED_S,
            )


async def test_leaders_renew_leases_and_the_gateway_cannot(connect: Connect) -> None:
    queue = await connect("queue")
    await queue.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    revision = await queue.kv(LEASES.name).create("queue.default", b"me")
    await queue.kv(LEASES.name).update("queue.default", b"me still", revision)
    gateway = await connect("gateway")
    with pytest.raises(PermanentError):
        await gateway.append(f"$KV.{LEASES.name}.queue.default", b"mine", timeout_s=DENIED_S)


async def test_the_gateway_asks_admission_and_gets_its_answer(connect: Connect) -> None:
    admission, gateway = await connect("admission"), await connect("gateway")

    async def answer(data: bytes, headers: dict[str, str]) -> bytes:
        return data.upper()

    await admission.serve(subjects.API_ADMISSION, answer)
    await admission.connection.flush()
    assert await gateway.request(subjects.API_ADMISSION, b"please") == b"PLEASE"


async def test_the_recorder_keeps_snapshots(connect: Connect) -> None:
    recorder = await connect("recorder")
    await recorder.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    store = recorder.objects(SNAPSHOTS)
    await store.put("1", b"first")
    await store.put("1", b"second")
    assert await (await connect("queue")).objects(SNAPSHOTS).get("1") == b"second"
    await store.delete("1")


def test_keys_are_private_and_stay(tmp_path: Path) -> None:
    first = make_keys(tmp_path, SystemIds())
    assert make_keys(tmp_path, SystemIds()) == first
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


async def test_readers_hear_the_public_feed_and_pull_it_and_can_do_nothing_else(connect: Connect) -> None:
    recorder = await connect("recorder")
    await recorder.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    await recorder.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    reader = await connect(READER)
    config = reader.connection.config
    client = await nats.connect(config.url, user=READER, password=config.password, inbox_prefix=f"_INBOX.{READER}")
    heard = await client.subscribe(f"{subjects.EVENTS}.>")
    pulled = await client.jetstream().pull_subscribe_bind(consumer=READER, stream=EVENTS.name)
    await client.flush()
    for number in range(2):
        await recorder.append(f"{subjects.EVENTS}.lab.1.Started", f"event {number}".encode())
        (got,) = await pulled.fetch(1, timeout=5)
        assert got.data == (await heard.next_msg(timeout=5)).data == f"event {number}".encode()
        await got.ack_sync(timeout=5)
    await client.close()
    refused = [
        subjects.API_ADMISSION,
        f"{subjects.EVENTS}.lab.1.Started",
        subjects.log("queue.default"),
        f"$JS.API.STREAM.MSG.GET.{LOG.name}",
        f"$JS.API.CONSUMER.CREATE.{LOG.name}",
        f"$JS.API.CONSUMER.CREATE.{EVENTS.name}",
        f"$JS.API.CONSUMER.CREATE.{EVENTS.name}.mine",
        f"$JS.API.CONSUMER.DURABLE.CREATE.{EVENTS.name}.mine",
        f"$JS.API.STREAM.PURGE.{EVENTS.name}",
        READ_SECRETS,
    ]
    for subject in refused:
        with pytest.raises(PermanentError):
            await reader.connection.request(subject, b"{}", timeout_s=DENIED_S)
