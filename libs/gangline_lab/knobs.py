"""Single settings of a policy, as `--set` turns them: KEY=VALUE, or POOL:KEY=VALUE for another pool than `default`."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from gangline_core.cluster import Policy
from gangline_core.foresight.learnt import ModelError
from gangline_core.settings import check_policy
from gangline_core.state import State
from gangline_lab.learning.modelfile import read_model
from gangline_lab.policyfile import PolicyFileError
from gangline_wire.policy_keys import UnknownKeyError, changed
from gangline_wire.problem import WrongValueError


class Knob(Struct, frozen=True):
    """One setting of one pool's policy."""

    pool: str
    change: str
    """As it was written: KEY=VALUE."""


def read_knobs(texts: Sequence[str]) -> tuple[Knob, ...]:
    """What the command line asks for.

    Raises:
        PolicyFileError: one of them is no setting, or its value is none.
    """
    knobs = tuple(map(_read, texts))
    for knob in knobs:
        _turn(Policy(), knob)
    return knobs


def _read(text: str) -> Knob:
    key, equals, value = text.partition("=")
    pool, colon, name = key.rpartition(":")
    return Knob(pool=pool.strip() if colon else "default", change=f"{name.strip()}{equals}{value.strip()}")


def turned(policy: Policy, knobs: Sequence[Knob], *, pool: str) -> Policy:
    """The policy of this pool with the settings that are asked for it.

    Raises:
        PolicyFileError: they do not go together with the rest of it.
    """
    own = [knob for knob in knobs if knob.pool == pool]
    for knob in own:
        policy = _turn(policy, knob)
    problem = check_policy(State(), policy) if own else None
    if problem is not None:
        raise PolicyFileError(f"--set: policy of pool {pool}: {problem.field}: {problem.message}")
    return policy


def _turn(policy: Policy, knob: Knob) -> Policy:
    try:
        return changed(policy, knob.change, model=_model)
    except UnknownKeyError as error:
        raise PolicyFileError(f"--set: {error}; `gangline policy set --help` lists them") from error
    except WrongValueError as error:
        raise PolicyFileError(f"--set: {error}") from error


def _model(path: str) -> str:
    try:
        return read_model(Path(path)).model
    except ModelError as error:
        raise PolicyFileError(f"--set: {error}") from error


def knob_words(knobs: Sequence[Knob], policies: dict[str, Policy]) -> list[str]:
    """Each setting that becomes another one, in words; `policies` are those of history, by pool."""
    said = []
    for pool in dict.fromkeys(knob.pool for knob in knobs):
        old = policies.get(pool, Policy())
        new = turned(old, knobs, pool=pool)
        for name in old.__struct_fields__:
            was, is_now = getattr(old, name), getattr(new, name)
            if was != is_now:
                said.append(f"pool {pool}: {name} {_plain(was)} -> {_plain(is_now)}")
    return said


def _plain(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if 0 < len(text) <= 60 else f"{text[:57]}..." if text else '""'
