"""Whether something else listens on this machine where a gang is to meet."""

import errno
import socket
from collections.abc import Callable

from msgspec.structs import replace

from gangline_agent.environment import port_kept_by
from gangline_agent.journal import Intent
from gangline_agent.launch import LaunchError
from gangline_agent.runner import Order
from gangline_core.facts import ExitCause
from gangline_core.room.ports import FOREIGN_MAX

LOOKED_AT = FOREIGN_MAX
"""So many ports from the gang's on are looked at when that is taken, so that the next try finds one that is free."""
_SOME_ADDRESS = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}


class PortTakenError(LaunchError):
    """The gang cannot meet where the log says."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        """All that are taken, the gang's first."""
        super().__init__(f"something else listens on port {ports[0]}, where its gang should meet")
        self.ports = ports


def check(order: Order, taken: Callable[[int], tuple[int, ...]]) -> None:
    """Look before the task starts that listens for its gang.

    Raises:
        PortTakenError: its port is not free.
    """
    port = port_kept_by(order)
    if port and (ports := taken(port)):
        raise PortTakenError(ports)


def refused(intent: Intent, error: Exception) -> Intent:
    """What is written down of a task that could not be started: the place is refused where the port is taken.

    Where none of those looked at is free it is a failed start, which takes a retry: the next try may find none either,
    and would be made for ever.
    """
    if not isinstance(error, PortTakenError) or intent.stop_cause is not None:
        return intent
    is_any_free = len(error.ports) < LOOKED_AT
    return replace(intent, stop_cause=ExitCause.PLACE_REFUSED if is_any_free else None, ports=error.ports)


def taken(port: int) -> tuple[int, ...]:
    """The port and those after it on which something listens; none when the port itself is free."""
    if not _is_taken(port):
        return ()
    after = range(port + 1, min(port + LOOKED_AT, 1 << 16))
    return (port, *(other for other in after if _is_taken(other)))


def _is_taken(port: int) -> bool:
    return any(_is_refused(family, port) for family in _SOME_ADDRESS)


def _is_refused(family: socket.AddressFamily, port: int) -> bool:
    """As a program would that listens on all addresses of the machine; what else goes wrong says nothing."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            probe.bind((_SOME_ADDRESS[family], port))
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False
