"""What the embedded platform is told: by `gangline up`, the demo, the benchmarks and tests."""

import getpass
import socket
from pathlib import Path

from msgspec import Struct, field


def _user() -> str:
    """The owner's login name; a user id without a name is fine too."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "owner"


class PlatformConfig(Struct, frozen=True, kw_only=True):
    """Settings of one embedded platform."""

    data_dir: Path
    http_host: str = "127.0.0.1"
    http_port: int = 0
    """Port of the HTTP API; 0 takes a free one."""
    nats_url: str = ""
    """Use this server instead of a private one."""
    nats_user: str = ""
    nats_password: str = ""
    nats_replicas: int = 1
    """On how many servers of `nats_url` each stream is kept."""
    nats_binary: str = ""
    """Path of the nats-server to run; empty looks for one."""
    agents: tuple[str, ...] = ()
    """Agents of other machines that have a bus user each, which writes the lane of no other."""
    nats_host: str = "127.0.0.1"
    nats_port: int = -1
    sync_always: bool = True
    """Write every append through to disk before it is answered."""
    processes: bool = False
    """One process per service instead of all in one."""
    replicas: int = 1
    """Processes of each deciding service, with `processes`; more than one gives warm standbys."""
    local_node: bool = True
    local_name: str = field(default_factory=lambda: socket.gethostname() or "localhost")
    local_name_is_chosen: bool = False
    """Somebody said the name; else this machine goes on under the one it had while tasks that were started so run."""
    local_pool: str = "default"
    local_orphan_s: float = 0.0
    """Local tasks end when no agent was there for so long; 0 lets them run on, for the next agent to find."""
    simulate: str = ""
    """File with nodes to simulate."""
    simulate_nodes_max: int = 0
    """Use only the first nodes of the file; 0 uses all."""
    simulate_pool: str = "default"
    speed: float = 1.0
    """How much faster than real time simulated tasks run; time limits and deadlines are by the clock."""
    user: str = field(default_factory=_user)
    otlp_endpoint: str = ""
    """Base URL of an OTLP/HTTP collector for traces; empty sends none."""
    log_level: str = "warning"
