"""The bus over TLS: a server shows a certificate, and who connects believes no other than its authority's."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.patience import LONG_S

from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_kit.errors import TemporaryError
from gangline_kit.nats_server import NatsServer, Tls
from gangline_wire.streams import LOG

EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
LANE = "gangline.log.admission"


def openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def authority(folder: Path, name: str) -> Path:
    """A certificate authority of the test's own."""
    path = folder / f"{name}.pem"
    openssl("req", "-x509", *EC, "-subj", f"/CN={name}", "-days", 1, "-out", path, "-keyout", folder / f"{name}.key")
    return path


def certificate(folder: Path, *, by: Path, name: str) -> Tls:
    """A server's certificate for a name, signed by an authority."""
    request, cert, key, names = (folder / f"server.{end}" for end in ("csr", "pem", "key", "ext"))
    names.write_text(f"subjectAltName={name}\n")
    openssl("req", *EC, "-subj", "/CN=server", "-out", request, "-keyout", key)
    signing = ("-CA", by, "-CAkey", by.with_suffix(".key"), "-CAcreateserial", "-days", 1, "-extfile", names)
    openssl("x509", "-req", "-in", request, "-out", cert, *signing)
    return Tls(certificate=cert, key=key)


async def connected(server: NatsServer, *, ca: Path | None, url: str = "") -> Bus:
    config = BusConfig(url=url or server.url, ca_file="" if ca is None else str(ca))
    return await Bus.connect(config, SystemClock())


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    return authority(tmp_path, "ours")


@pytest.fixture
async def encrypted(tmp_path: Path, ca: Path) -> AsyncIterator[NatsServer]:
    tls = await asyncio.to_thread(certificate, tmp_path, by=ca, name="IP:127.0.0.1")
    server = NatsServer(tmp_path / "nats", sync_always=False, tls=tls)
    await server.start()
    yield server
    await server.stop()


async def test_who_knows_the_authority_works_over_tls_and_finds_the_server_again(
    encrypted: NatsServer, ca: Path
) -> None:
    assert encrypted.url.startswith("tls://")
    bus = await connected(encrypted, ca=ca)
    await bus.ensure((LOG,))
    first = await bus.append(LANE, b"one", expected_seq=0)
    await encrypted.kill()
    await encrypted.start()
    async with asyncio.timeout(LONG_S):
        await bus.connection.wait_connected()
    assert await bus.append(LANE, b"two", expected_seq=first) == first + 1
    await bus.close()


async def test_a_server_of_another_authority_or_of_none_that_is_known_is_not_believed(
    encrypted: NatsServer, tmp_path: Path
) -> None:
    for wrong in (await asyncio.to_thread(authority, tmp_path, "theirs"), None):
        with pytest.raises(TemporaryError, match="no NATS server answers"):
            await connected(encrypted, ca=wrong)


async def test_nobody_speaks_to_it_in_the_clear(encrypted: NatsServer) -> None:
    with pytest.raises(TemporaryError):
        await connected(encrypted, ca=None, url=encrypted.url.replace("tls://", "nats://"))


async def test_a_certificate_for_another_name_is_not_believed(tmp_path: Path, ca: Path) -> None:
    tls = await asyncio.to_thread(certificate, tmp_path, by=ca, name="DNS:elsewhere.example")
    server = NatsServer(tmp_path / "nats", sync_always=False, tls=tls)
    await server.start()
    with pytest.raises(TemporaryError):
        await connected(server, ca=ca)
    await server.stop()
