"""The policy file of a simulation: one YAML page with the pools' policies and what the simulated world is like.

policy: {ordering: fifo, backfill: false}       # of pool "default"; or `pools: {name: {...}}` for several
simulation: {round_s: 60, restart_s: 30}        # fields of gangline_lab.sim.conditions.Conditions
groups: [{path: vision, guaranteed: {gpu_milli: 64000}}]
"""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from gangline_core.cluster import Policy
from gangline_core.groups import Group
from gangline_core.learnt import ModelError
from gangline_core.settings import check_policy
from gangline_core.state import State
from gangline_lab.learning.modelfile import read_model
from gangline_lab.sim.conditions import Conditions


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


def read_policy(path: Path) -> Rules:
    """The policies in a file.

    Raises:
        PolicyFileError: with the field that is wrong.
    """
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        file = msgspec.convert(raw, PolicyFile)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
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


def read_groups(path: Path) -> tuple[Group, ...]:
    """The groups in a quota file: `groups: [{path: vision, limit: {gpu_milli: 8000}}]`.

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
    problem = check_policy(State(), policy)
    if problem is not None:
        raise PolicyFileError(f"{file}: policy of pool {pool}: {problem.field}: {problem.message}")
    return policy


def _taught(path: Path, fields: dict[str, Any]) -> dict[str, str]:
    """A model that stands in a file beside the page (`@FILE`)."""
    told = fields.get("model")
    if not isinstance(told, str) or not told.startswith("@"):
        return {}
    try:
        return {"model": read_model(path.parent / told[1:]).model}
    except ModelError as error:
        raise PolicyFileError(f"{path.name}: {error}") from error
