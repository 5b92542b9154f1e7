"""Which services the embedded platform runs, with which settings, in which order."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

import gangline_accounting.app
import gangline_accounting.config
import gangline_admission.app
import gangline_admission.config
import gangline_agent.app
import gangline_agent.config
import gangline_elastic.app
import gangline_elastic.config
import gangline_gateway.app
import gangline_gateway.config
import gangline_placement.app
import gangline_placement.config
import gangline_queue.app
import gangline_queue.config
import gangline_recorder.app
import gangline_recorder.config
import gangline_telemetry.app
import gangline_telemetry.config
from gangline_embedded.config import PlatformConfig
from gangline_kit.service import Site

Run = Callable[[Site, Any], Awaitable[None]]
SIMULATED = "simulated"
"""The agent that carries simulated nodes."""


class Room(Struct, frozen=True):
    """One service: its name here, its kind (which package), what runs it, and its settings."""

    name: str
    kind: str
    run: Run
    config: Struct
    own_bus: bool = False
    """True for services whose traffic must not hold up the deciding ones."""


def archive_of(data_dir: Path) -> Path:
    """Where the recorder keeps the log for good."""
    return data_dir / "archive"


def agents_of(data_dir: Path) -> Path:
    """Where each agent of this machine has its folder, under its name."""
    return data_dir / "agent"


def rooms(config: PlatformConfig, *, data_dir: Path, http_port: int) -> list[Room]:
    """All rooms of the platform, those that others wait for first."""
    archive = archive_of(data_dir)
    found = [
        Room(
            name="admission",
            kind="admission",
            run=gangline_admission.app.run,
            config=gangline_admission.config.Config(
                admin_token_file=str(data_dir / "admin.token"), first_user=config.user
            ),
        ),
        Room(name="queue", kind="queue", run=gangline_queue.app.run, config=gangline_queue.config.Config()),
        Room(
            name="placement",
            kind="placement",
            run=gangline_placement.app.run,
            config=gangline_placement.config.Config(),
        ),
        Room(name="elastic", kind="elastic", run=gangline_elastic.app.run, config=gangline_elastic.config.Config()),
        Room(
            name="accounting",
            kind="accounting",
            run=gangline_accounting.app.run,
            config=gangline_accounting.config.Config(),
        ),
        Room(
            name="telemetry",
            kind="telemetry",
            run=gangline_telemetry.app.run,
            config=gangline_telemetry.config.Config(),
            own_bus=True,
        ),
        Room(
            name="recorder",
            kind="recorder",
            run=gangline_recorder.app.run,
            config=gangline_recorder.config.Config(archive_dir=str(archive)),
            own_bus=True,
        ),
        Room(
            name="gateway",
            kind="gateway",
            run=gangline_gateway.app.run,
            config=gangline_gateway.config.Config(host=config.http_host, port=http_port),
        ),
    ]
    return found + _agents(config, data_dir)


def _agents(config: PlatformConfig, data_dir: Path) -> list[Room]:
    found = []
    if config.local_node:
        local = gangline_agent.config.Config(
            name=config.local_name,
            pool=config.local_pool,
            data_dir=str(agents_of(data_dir) / config.local_name),
            # The whole platform rests when we do: local tasks may run on, and nobody starts them elsewhere meanwhile.
            orphan_s=config.local_orphan_s,
        )
        found.append(Room(name="agent", kind="agent", run=gangline_agent.app.run, config=local, own_bus=True))
    if config.simulate:
        simulated = gangline_agent.config.Config(
            name=SIMULATED,
            pool=config.simulate_pool,
            data_dir=str(agents_of(data_dir) / SIMULATED),
            simulate=config.simulate,
            simulate_nodes_max=config.simulate_nodes_max,
            speed=config.speed,
        )
        found.append(
            Room(name="agent-simulated", kind="agent", run=gangline_agent.app.run, config=simulated, own_bus=True)
        )
    return found
