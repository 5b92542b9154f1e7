"""All settings as one document, and what another one would change."""

from typing import Any

from msgspec import Struct

from gangline_core.cluster import Policy, Pool
from gangline_core.groups import Group, User, UserClass
from gangline_core.reserving.windows import Window


class Document(Struct, frozen=True, omit_defaults=True):
    """Settings; versions in it mean nothing."""

    groups: tuple[Group, ...] = ()
    users: tuple[User, ...] = ()
    classes: tuple[UserClass, ...] = ()
    pools: tuple[Pool, ...] = ()
    policies: dict[str, Policy] = {}
    prices: dict[str, int] | None = None
    windows: tuple[Window, ...] | None = None


class Change(Struct, frozen=True, omit_defaults=True):
    """One setting that a document would change; `before` is None for what does not exist yet."""

    kind: str
    """"group", "user", "class", "pool", "policy", "prices" or "window"."""
    name: str
    field: str = ""
    before: Any = None
    after: Any = None
