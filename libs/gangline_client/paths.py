"""Every address of the HTTP API, once, and how names become parts of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

V1 = "/v1"
JOBS = f"{V1}/jobs"
BATCH = f"{V1}/jobs:batch"
EVENTS = f"{V1}/events"
QUEUE = f"{V1}/queue"
NODES = f"{V1}/nodes"
GROUPS = f"{V1}/groups"
USAGE = f"{V1}/usage"
POLICIES = f"{V1}/policies"
TOKENS = f"{V1}/tokens"
WINDOWS = f"{V1}/windows"
PRICES = f"{V1}/prices"
SETTINGS = f"{V1}/settings"
SETTINGS_HISTORY = f"{SETTINGS}/history"
WHOAMI = f"{V1}/whoami"
CLUSTER = f"{V1}/cluster"
VERSION = "/version"

ROOT_NAME = "~"
"""How the root of the group tree, whose path is empty, is written in addresses."""


@dataclass(frozen=True)
class JobQuery:
    """Which jobs to list; what is empty does not filter."""

    states: tuple[str, ...] = ()
    group: str = ""
    user: str = ""
    pool: str = ""
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    newest_first: bool = False
    array: int = 0
    """Only this array and its elements; 0 does not filter."""

    def parameters(self, *, limit: int, cursor: str) -> dict[str, str]:
        """The query of the address."""
        parts = {
            "state": ",".join(self.states),
            "group": self.group,
            "user": self.user,
            "pool": self.pool,
            "name": self.name,
            "label": ",".join(f"{key}={value}" for key, value in self.labels.items()),
            "array": str(self.array) if self.array else "",
            "order": "desc" if self.newest_first else "",
            "limit": str(limit),
            "cursor": cursor,
        }
        return given(parts)


@dataclass(frozen=True)
class QueueQuery:
    """Which lines of a queue to show; what is empty does not filter."""

    group: str = ""
    user: str = ""
    name: str = ""
    reason: str = ""
    """A code, such as "GroupLimit"."""
    limit: int = 0
    """The first so many; 0 shows as many as an answer may hold."""

    def parameters(self, *, pool: str) -> dict[str, str]:
        """The query of the address."""
        limit = str(self.limit) if self.limit else ""
        parts = {"pool": pool, "group": self.group, "user": self.user, "name": self.name, "reason": self.reason}
        return given({**parts, "limit": limit})


def given(parts: Mapping[str, str]) -> dict[str, str]:
    """The parts that are not empty."""
    return {name: text for name, text in parts.items() if text}


def job(job: int | str, part: str = "") -> str:
    """A job (by its number, or "42_7" for an element of an array), or a part of it such as "logs"."""
    return f"{JOBS}/{job}/{part}" if part else f"{JOBS}/{job}"


def node(node: str, part: str = "") -> str:
    """A node, or an act on it."""
    return f"{NODES}/{segment(node)}/{part}" if part else f"{NODES}/{segment(node)}"


def group(path: str) -> str:
    """A group; the slashes of its path stay slashes."""
    return f"{GROUPS}/{path_segments(path)}"


def user(group_path: str, name: str) -> str:
    """A user of a group."""
    return f"{group(group_path)}/users/{segment(name)}"


def policy(pool: str) -> str:
    """A pool's policy."""
    return f"{POLICIES}/{segment(pool)}"


def window(name: str) -> str:
    """One window of dated capacity."""
    return f"{WINDOWS}/{segment(name)}"


def token(digest: str) -> str:
    """A token, by its hash."""
    return f"{TOKENS}/{segment(digest)}"


def segment(text: str) -> str:
    """One part of an address for any text."""
    return quote(text, safe="")


def path_segments(path: str) -> str:
    """A group path as parts of an address."""
    return "/".join(segment(part) for part in path.split("/")) if path else ROOT_NAME
