"""Dated capacity that an administrator keeps: maintenance, or room for some users and groups.

A window closes its nodes to every job that would run into it: no job starts there that may still run when the window
begins, and none starts inside it, but for those that the window is kept for. What runs already goes on.
"""

from msgspec import Struct

from gangline_core.groups import ancestors
from gangline_core.ids import NodeId
from gangline_core.spec import JobSpec


class Window(Struct, frozen=True, omit_defaults=True, gc=False):
    """Nodes of one pool from one moment to another, for nobody (maintenance) or for some."""

    name: str
    pool: str
    start_ms: int
    end_ms: int
    nodes: tuple[NodeId, ...] = ()
    """Empty means all nodes of the pool, those that join later, too."""
    groups: tuple[str, ...] = ()
    """Groups, with everything below them, whose jobs it is kept for."""
    users: tuple[str, ...] = ()
    why: str = ""
    version: int = 0

    def admits(self, spec: JobSpec) -> bool:
        """True when the window is kept for this job."""
        return spec.user in self.users or any(path in self.groups for path in ancestors(spec.group))

    def hits(self, now: int, end_ms: int | None) -> bool:
        """True when something that runs from `now` to `end_ms` (None is for ever) runs into the window."""
        return now < self.end_ms and (end_ms is None or end_ms > self.start_ms)
