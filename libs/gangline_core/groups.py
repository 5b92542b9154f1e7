"""Who may use how much: the tree of groups ending in users, with limits per dimension.

Dimensions are names: "gpu_milli" (all models), "gpu_milli:<MODEL>", "cpu_milli", "memory_mib", "jobs" (running jobs).
A dimension that is absent from a limit is unlimited; one absent from a guarantee is 0.
"""

from msgspec import Struct

ROOT = ""
"""Path of the tree's root, which holds everything."""


class Group(Struct, frozen=True, omit_defaults=True, gc=False):
    """One node of the tree; "research/vision" is a child of "research"."""

    path: str
    guaranteed: dict[str, int] = {}
    limit: dict[str, int] = {}
    user_limit: dict[str, int] = {}
    """Limit for each user of the group that has none of its own."""
    job_limit: dict[str, int] = {}
    """Most one job may ask for."""
    weight: int = 1
    level: int = 0
    """The group's level, a factor of the priority formula."""
    heads: tuple[str, ...] = ()
    queued_jobs_max: int = 0
    """Unfinished jobs the group may have; 0 means no cap."""
    submits_per_minute: int = 0
    time_limit_s_max: int = 0
    budget_gpu_hours: int = 0
    """GPU-hours the group may spend in all; 0 means no budget."""
    version: int = 0


class User(Struct, frozen=True, omit_defaults=True, gc=False):
    """A leaf of the tree: one user in one group."""

    name: str
    group: str
    limit: dict[str, int] = {}
    level: int = 0
    queued_jobs_max: int = 0
    submits_per_minute: int = 0
    version: int = 0


class Token(Struct, frozen=True, omit_defaults=True, gc=False):
    """A bearer token, known only by its hash."""

    digest: str
    """sha256 of the token, hexadecimal."""
    name: str
    role: str
    """One of "user", "head", "admin", "readonly"."""
    user: str
    groups: tuple[str, ...] = ()
    """Groups the bearer may act in; administrators and all-seeing readers need none."""
    expires_ms: int = 0
    revoked: bool = False


def ancestors(path: str) -> tuple[str, ...]:
    """The path itself and everything above it, ending in the root: "a/b" -> ("a/b", "a", "")."""
    chain = [path]
    while path:
        path = path.rpartition("/")[0]
        chain.append(path)
    return tuple(chain)


def user_key(group: str, user: str) -> str:
    """The name under which a user's own usage is kept; no group path can contain it."""
    return f"{group}:{user}"
