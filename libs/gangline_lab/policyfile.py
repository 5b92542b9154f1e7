"""The policy file of a simulation: one YAML page with the pools' policies and what the simulated world is like.

policy: {ordering: fifo, backfill: false}       # of pool "default"; or `pools: {name: {...}}` for several
simulation: {round_s: 60, restart_s: 30}        # fields of gangline_lab.sim.conditions.Conditions
groups: [{path: vision, guaranteed: {gpu_milli: 64000}}]

An administrator's page (`gangline policy show --file`) is understood as well: its policies and groups count.
"""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gangline_core.cluster import Policy
from gangline_core.foresight.learnt import ModelError
from gangline_core.groups import Group
from gangline_core.settings import check_policy
from gangline_core.state import State
from gangline_lab.learning.modelfile import read_model
from gangline_lab.outside import PageError as UnreadableError
from gangline_lab.outside import check_groups, read_page
from gangline_lab.sim.conditions import Conditions
from gangline_wire.fields import unknown_field
from gangline_wire.policyfile import PolicyFileError as PageError
from gangline_wire.policyfile import parse_policy

PAGE_ALONE = frozenset({"defaults", "classes", "prices", "windows"})
"""Parts that only an administrator's page has."""
UNHEEDED = ("classes", "users", "prices", "windows")
"""Parts of such a page that a simulation leaves as they are."""


class PolicyFileError(Exception):
    """A policy file that makes no sense; the message says where."""


class PolicyFile(Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds."""

    name: str = ""
    about: str = ""
    """Which paper or idea it is, for people."""
    policy: dict[str, Any] = {}
    pools: dict[str, dict[str, Any]] = {}
    simulation: Conditions = Conditions()
    groups: tuple[Group, ...] = ()


class Rules(Struct, frozen=True):
    """A policy file, understood."""

    name: str
    policies: dict[str, Policy]
    conditions: Conditions
    groups: tuple[Group, ...] = ()
    about: str = ""
    unheeded: tuple[str, ...] = ()
    """Parts of an administrator's page that change nothing here."""


def read_policy(path: Path) -> Rules:
    """The policies in a file.

    Raises:
        PolicyFileError: with the field that is wrong.
    """
    try:
        raw: Any = read_page(path) or {}
        if is_page(raw):
            return _rules_of_page(path, raw)
        _check_names(path, raw)
        file = msgspec.convert(raw, PolicyFile)
        check_groups(path, file.groups)
    except UnreadableError as error:
        raise PolicyFileError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise PolicyFileError(f"{path.name}: {error}") from error
    given = dict(file.pools)
    if file.policy or not given:
        given.setdefault("default", file.policy)
    policies = {pool: _policy(path, pool, fields) for pool, fields in sorted(given.items())}
    return Rules(
        name=file.name or path.stem,
        policies=policies,
        conditions=file.simulation,
        groups=file.groups,
        about=file.about,
    )


def is_page(raw: object) -> bool:
    """True for an administrator's page: parts that nobody else has, groups by name, or policies inside of pools."""
    if not isinstance(raw, dict):
        return False
    pools = raw.get("pools")
    inside = isinstance(pools, dict) and any(isinstance(pool, dict) and "policy" in pool for pool in pools.values())
    return inside or isinstance(raw.get("groups"), dict) or not PAGE_ALONE.isdisjoint(raw)


def _rules_of_page(path: Path, raw: dict[str, Any]) -> Rules:
    """What an administrator's page says about policies and groups; pools it gives no policy keep the usual one."""
    try:
        page = parse_policy(raw)
    except PageError as error:
        raise PolicyFileError(f"{path.name}: {error}") from error
    for pool, policy in page.policies.items():
        _check(path, pool, policy)
    unheeded = tuple(part for part in UNHEEDED if getattr(page, part))
    return Rules(name=path.stem, policies=page.policies, conditions=Conditions(), groups=page.groups, unheeded=unheeded)


def _check_names(path: Path, raw: object) -> None:
    """Refuse what no part is called; a policy's field outside of `policy` is told where it belongs."""
    for name in raw if isinstance(raw, dict) else ():
        if name in PolicyFile.__struct_fields__:
            continue
        if name in Policy.__struct_fields__:
            raise PolicyFileError(f"{path.name}: {name}: is a field of a policy; write `policy: {{{name}: ...}}`")
        raise PolicyFileError(f"{path.name}: {name}: {unknown_field(name, PolicyFile.__struct_fields__)}")


def read_groups(path: Path) -> tuple[Group, ...]:
    """The groups in a quota file: `groups: [{path: vision, limit: {gpu_milli: 8000}}]`, or an administrator's page.

    Raises:
        PolicyFileError: with the field that is wrong, or because there are none.
    """
    groups = read_policy(path).groups
    if not groups:
        raise PolicyFileError(f"{path.name}: names no groups")
    return groups


def _policy(path: Path, pool: str, fields: dict[str, Any]) -> Policy:
    file = path.name
    known = Policy.__struct_fields__
    for name in fields:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
            raise PolicyFileError(f"{file}: policy of pool {pool}: unknown field {name!r}{hint}")
    try:
        policy = msgspec.convert({**fields, **_taught(path, fields)}, Policy)
    except msgspec.ValidationError as error:
        raise PolicyFileError(f"{file}: policy of pool {pool}: {error}") from error
    _check(path, pool, policy)
    return policy


def _check(path: Path, pool: str, policy: Policy) -> None:
    problem = check_policy(State(), policy)
    if problem is not None:
        raise PolicyFileError(f"{path.name}: policy of pool {pool}: {problem.field}: {problem.message}")


def _taught(path: Path, fields: dict[str, Any]) -> dict[str, str]:
    """A model that stands in a file beside the page (`@FILE`)."""
    told = fields.get("model")
    if not isinstance(told, str) or not told.startswith("@"):
        return {}
    try:
        return {"model": read_model(path.parent / told[1:]).model}
    except ModelError as error:
        raise PolicyFileError(f"{path.name}: {error}") from error
