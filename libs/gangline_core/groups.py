"""Who may use how much: the tree of groups ending in users, with limits per dimension.

Dimensions are names: "gpu_milli" (all models), "gpu_milli:<MODEL>", "gpu_memory_mib", "cpu_milli", "memory_mib",
"device:<NAME>" and "jobs" (running jobs).
A dimension that is absent from a limit is unlimited; one absent from a guarantee is 0.
"""

from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from gangline_core.limits.calendar import Season

ROOT = ""
"""Path of the tree's root, which holds everything."""


class BudgetMode(StrEnum):
    """What a budget does to jobs that use GPUs."""

    START = "start"
    """Nothing starts when it is used up; what runs goes on."""
    SAFE = "safe"
    """A job starts only if it can end inside the budget, what runs counted with its whole time limit."""
    STOP = "stop"
    """What runs is stopped, with its grace, when it is used up."""


class BudgetPeriod(StrEnum):
    """How long a budget is for; then the group has all of it again."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


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
    borrow_limit: dict[str, int] = {}
    """Most it may use beyond its guarantee; a dimension that is absent is bounded by `limit` alone."""
    lend_limit: dict[str, int] = {}
    """Most of its idle guarantee that others may use; a dimension that is absent is lent whole."""
    user_queued_jobs_max: int = 0
    """Unfinished jobs of each user that has no cap of their own; 0 means no cap."""
    user_submits_per_minute: int = 0
    priority_max: int | None = None
    """Highest priority of its jobs, whoever sets it; administrators may go beyond."""
    user_priority_max: int | None = None
    """Highest priority that jobs may be submitted with, whoever submits, and that their users may set later. Heads may
    raise it later, up to `priority_max`."""
    levels: tuple[str, ...] = ()
    """Queue levels its jobs may be in; empty allows all."""
    budget_mode: BudgetMode = BudgetMode.START
    seasons: tuple[Season, ...] = ()
    """Times of the day or week at which other limits hold."""
    closing: bool = False
    """It takes no new jobs, and is removed when the last one has ended."""
    budget_period: BudgetPeriod | None = None
    """The budget is for so long, by the calendar; None means once and for all."""
    budget_zone: str = "UTC"
    """Time zone in which its periods begin, at midnight."""


class User(Struct, frozen=True, omit_defaults=True, gc=False):
    """A leaf of the tree: one user in one group."""

    name: str
    group: str
    limit: dict[str, int] = {}
    level: int = 0
    queued_jobs_max: int = 0
    submits_per_minute: int = 0
    version: int = 0
    priority_max: int | None = None
    """Highest priority the user may give; the group's word for its users when it is None."""
    of_class: str = ""
    """The user class whose settings hold where the user's own are silent."""
    closing: bool = False
    """They hand in no new jobs, and are no member any more when the last one has ended."""


class UserClass(Struct, frozen=True, omit_defaults=True, gc=False):
    """Settings that many users share, such as those of students."""

    name: str
    limit: dict[str, int] = {}
    level: int = 0
    queued_jobs_max: int = 0
    submits_per_minute: int = 0
    priority_max: int | None = None
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


@lru_cache(maxsize=65_536)
def ancestors(path: str) -> tuple[str, ...]:
    """The path itself and everything above it, ending in the root: "a/b" -> ("a/b", "a", "")."""
    chain = [path]
    while path:
        path = path.rpartition("/")[0]
        chain.append(path)
    return tuple(chain)


def with_class(user: User, user_class: UserClass | None) -> User:
    """The user's settings, with those of the class where the own ones are silent."""
    if user_class is None:
        return user
    return User(
        name=user.name,
        group=user.group,
        limit={**user_class.limit, **user.limit},
        level=user.level or user_class.level,
        queued_jobs_max=user.queued_jobs_max or user_class.queued_jobs_max,
        submits_per_minute=user.submits_per_minute or user_class.submits_per_minute,
        version=user.version,
        priority_max=user_class.priority_max if user.priority_max is None else user.priority_max,
        of_class=user.of_class,
        closing=user.closing,
    )


@lru_cache(maxsize=65_536)
@lru_cache(maxsize=65_536)
def holders(group: str, user: str) -> tuple[str, ...]:
    """Under which names a user's use is kept, nearest first: the user, the group, its ancestors."""
    return (user_key(group, user), *ancestors(group))


@lru_cache(maxsize=65_536)
def meeting(group: str, other: str) -> str:
    """The nearest group that is both at or above one and at or above the other."""
    shared = ancestors(other)
    return next(path for path in ancestors(group) if path in shared)


def user_key(group: str, user: str) -> str:
    """The name under which a user's own usage is kept; no group path can contain it."""
    return f"{group}:{user}"


def user_of(holder: str) -> tuple[str, str]:
    """The group and the user of a `user_key`; for a group path that and nobody."""
    group, _, user = holder.partition(":")
    return group, user
