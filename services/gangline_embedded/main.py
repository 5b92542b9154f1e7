"""`gangline up` and `gangline demo`: the platform on this machine, for daily use and for a first look."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit

from msgspec.structs import replace

from gangline_agent.fleet import FleetError, read
from gangline_client.client import Client
from gangline_embedded.aside import set_aside
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform
from gangline_kit import loop
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.secret_file import read_secret
from gangline_kit.service import setup_logging
from gangline_wire.command_line import Parser, ready_streams
from gangline_wire.connection import DATA_VARIABLE, Connection, data_folder, write_connection
from gangline_wire.nodefile import read_short
from gangline_wire.rights import agent_user_name

DEFAULT_PORT = 8470
REPLICAS_MAX = 16
"""More followers of one service than this help nobody on one machine."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb; gives the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    ready_streams()
    if arguments[:1] == ["demo"]:
        from gangline_embedded import demo  # the demo draws pages and trains nothing; `up` should not pay for it

        return demo.main(arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.replicas > 1 and not options.processes:
        parser.error("--replicas needs --processes")
    setup_logging(options.log_level)
    try:
        return loop.run(_up(options))
    except (PermanentError, TemporaryError, OSError) as error:
        print(f"gangline up: {_told(error)}", file=sys.stderr)  # noqa: T201 - the command's own words
        return 1


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename} cannot be used: {error.strerror}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="gangline", description="The platform on this machine.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="run the platform until Ctrl-C; data is kept for the next time")
    up.add_argument("--data", type=_folder, default=None, help="data folder (default: your user data folder)")
    up.add_argument("--host", default="127.0.0.1", help="address of the HTTP API (default: loopback only)")
    up.add_argument("--port", type=_port, default=DEFAULT_PORT, help="port of the HTTP API; 0 takes a free one")
    up.add_argument("--processes", action="store_true", help="one process per service")
    up.add_argument("--replicas", type=_replicas, default=1, help="with --processes: processes per deciding service")
    up.add_argument(
        "--simulate",
        type=_described,
        default="",
        metavar="NODES",
        help="simulate nodes instead: 4x8xH100 (nodes x GPUs x model), or a file (YAML, JSON, CSV) with nodes",
    )
    faster = "how much faster simulated tasks run; limits are by the clock"
    up.add_argument("--speed", type=_speed, default=1.0, help=faster)
    up.add_argument("--name", default="", help="name of this machine's node (default: host name)")
    up.add_argument("--nats-url", default="", help="use this NATS server instead of a private one")
    up.add_argument("--nats-user", default="")
    up.add_argument("--nats-password-file", type=Path, default=None)
    up.add_argument("--nats-binary", default="", help="nats-server to run")
    up.add_argument("--nats-host", default="127.0.0.1", help="address of the private server; agents elsewhere need it")
    up.add_argument(
        "--nats-port", type=_port, default=0, help="port of the private server (default: 0, which takes a free one)"
    )
    up.add_argument(
        "--agent", action="append", default=[], metavar="NAME", help="an agent with a bus user of its own (repeatable)"
    )
    up.add_argument("--no-sync", action="store_true", help="faster, but a power loss may lose the last two minutes")
    up.add_argument(
        "--otlp", type=_collector, default="", metavar="URL", help="send traces to this OTLP/HTTP collector"
    )
    up.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error"])
    verbs.add_parser("demo", help="see the platform at work", add_help=False)
    return parser


def _folder(text: str) -> Path:
    """A folder, or where one can be made."""
    path = Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    return path


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text} is no port; give 0 to 65535")
    return int(text)


def _replicas(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= REPLICAS_MAX):
        raise argparse.ArgumentTypeError(f"{text} is no number of processes; give 1 to {REPLICAS_MAX}")
    return int(text)


def _collector(text: str) -> str:
    """Spans for an address that is none would be lost without a word."""
    try:
        url = urlsplit(text)
        is_one = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_one = False
    if text and not is_one:
        raise argparse.ArgumentTypeError(f"{text} is no address of a collector; give http://HOST:4318")
    return text


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < inf:
        raise argparse.ArgumentTypeError(f"{text} is no speed; give a number above 0")
    return speed


def _described(text: str) -> str:
    """Nodes that can be read: told at once, before anything starts."""
    if not text:
        return text
    try:
        found = read(text, agent="", pool="")
    except FleetError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not found:
        raise argparse.ArgumentTypeError(f"{text} describes no machine")
    return text if read_short(text) else str(Path(text).absolute())


async def _up(options: argparse.Namespace) -> int:
    config = _config(options)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    known = config.data_dir / "admin.token"
    token_before = read_secret(known) if known.exists() else ""
    _say("Gangline is starting ..." + (" (a process for each service takes some time)" if config.processes else ""))
    async with Platform(config) as platform:
        write_connection(platform.data_dir, Connection(url=platform.url, token=platform.token))
        async with Client(platform.url, token=platform.token) as client:
            aside = await set_aside(client, simulates=bool(config.simulate))
        _greet(platform, token_is_new=platform.token != token_before, aside=aside)
        if platform.config.local_name != config.local_name:
            was = platform.config.local_name
            _say(f"This machine goes on as node {was}, as tasks run that began under that name.")
        async with asyncio.TaskGroup() as group:
            stop = group.create_task(stopping.wait())
            fail = group.create_task(platform.failed.wait())
            await asyncio.wait((stop, fail), return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            fail.cancel()
        if platform.failure is not None:
            raise platform.failed_error()
        _say("\nStopping. Waiting jobs wait; local jobs run on and are found again by the next `gangline up`.")
    return 0


def _config(options: argparse.Namespace) -> PlatformConfig:
    config = PlatformConfig(
        data_dir=(options.data or data_folder()).absolute(),
        http_host=options.host,
        http_port=options.port,
        nats_url=options.nats_url,
        nats_user=options.nats_user,
        nats_password=options.nats_password_file.read_text().strip() if options.nats_password_file else "",
        nats_binary=options.nats_binary,
        agents=tuple(options.agent),
        nats_host=options.nats_host,
        nats_port=options.nats_port or -1,
        sync_always=not options.no_sync,
        processes=options.processes,
        replicas=options.replicas,
        local_node=not options.simulate,
        simulate=options.simulate,
        speed=options.speed,
        otlp_endpoint=options.otlp,
        log_level=options.log_level,
    )
    return replace(config, local_name=options.name, local_name_is_chosen=True) if options.name else config


def _greet(platform: Platform, *, token_is_new: bool, aside: int = 0) -> None:
    _say(f"Gangline is up: {platform.url}")
    _say(f"  data    {platform.data_dir}")
    if token_is_new:
        _say(f"  token   {platform.token}   (shown once; the command line finds it by itself)")
        _say(f"  console {platform.url}/console/#token={platform.token}")
    else:
        _say(f"  console {platform.url}/   (asks for the token)")
    if platform.nats is not None:
        secret = f"@{platform.data_dir}/nats-agent.secret"
        _say(f"  agents  gangline agent --server {platform.nats_url} --token {quote(secret)}")
        for name in platform.config.agents:
            secret = f"{platform.data_dir}/nats-{agent_user_name(name)}.secret"
            own = f"--user {agent_user_name(name)} --name {quote(name)} --token {quote('@' + secret)}"
            _say(f"          gangline agent --server {platform.nats_url} {own}")
    if platform.config.simulate:
        _say("  nodes   simulated: a task lasts a minute, or as its job says: attributes: {run_time_s: 600}")
    elif aside:
        are = (
            "1 that an earlier start simulated takes" if aside == 1 else f"{aside} that an earlier start simulated take"
        )
        _say(f"  nodes   this machine; {are} no work (`gangline up --simulate` brings them back)")
    if line := for_other_terminals(platform.data_dir):
        _say(line)
    _say("Submit from another terminal:  gangline run --gpus 1 -- python train.py")
    _say("Stop with Ctrl-C.")


def for_other_terminals(folder: Path) -> str:
    """What they must be told so that the command line finds a platform that keeps its data elsewhere; else empty."""
    usual = folder == data_folder().absolute()
    return "" if usual else f"In other terminals first:      export {DATA_VARIABLE}={quote(str(folder))}"


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the command's own words


if __name__ == "__main__":
    sys.exit(main())
