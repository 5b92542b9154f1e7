"""Composition root of the agent, and the command `gangline agent` that joins a machine to a running platform."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from gangline_agent.app import run
from gangline_agent.config import Config
from gangline_kit.config import KitConfig, load, load_kit
from gangline_kit.service import Site, run_service
from gangline_wire.command_line import Parser

USER = "agent"
"""The user as which agents of other machines connect; its password is the token."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run an agent until a signal comes."""
    given = _parser().parse_args(arguments)

    async def service(site: Site) -> None:
        await run(site, _config(given))

    run_service("agent", service, _kit(given))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="gangline agent",
        description="Join this machine to a running platform. Settings may also come from GANGLINE_AGENT_* variables.",
    )
    parser.add_argument("--server", metavar="URL", help="message bus of the platform, such as nats://head:4222")
    parser.add_argument("--token", help="token of agents, or @FILE to read it from a file ($GANGLINE_NATS_PASSWORD)")
    parser.add_argument("--user", default=USER, help=f"bus user whose token it is ({USER}; agent-NAME has one lane)")
    parser.add_argument("--name", help="name of this machine in the cluster (its host name)")
    parser.add_argument("--pool", help='pool the machine belongs to ("default")')
    parser.add_argument("--address", help="where other machines reach this one (found by the way to the server)")
    parser.add_argument("--labels", help="labels of the node: key=value,key=value")
    parser.add_argument("--topology-file", metavar="FILE", help="where machines stand: racks, blocks, islands of GPUs")
    parser.add_argument("--data", dest="data_dir", metavar="FOLDER", help="folder for the tasks' files")
    parser.add_argument("--simulate", metavar="FILE", help="carry simulated nodes from this file instead")
    parser.add_argument("--speed", type=float, help="how much faster simulated tasks run (limits are by the clock)")
    return parser


def _config(given: argparse.Namespace) -> Config:
    """Settings from the environment, then from the command line."""
    config = load(Config, "agent")
    names = [field.name for field in structs.fields(Config)]
    changes = {name: value for name, value in vars(given).items() if name in names and value is not None}
    return structs.replace(config, **changes)


def _kit(given: argparse.Namespace) -> KitConfig | None:
    """The bus from the command line, whose streams are the platform's; None leaves all to the environment."""
    if given.server is None:
        return None
    password = given.token or os.environ.get("GANGLINE_NATS_PASSWORD", "")
    if password.startswith("@"):
        path = Path(password[1:]).expanduser()
        try:
            password = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            sys.exit(f"gangline agent: the token's file {path} cannot be read: {cause}")
    return structs.replace(
        load_kit(), nats_url=given.server, nats_user=given.user, nats_password=password, ensure=False
    )


if __name__ == "__main__":
    main()
