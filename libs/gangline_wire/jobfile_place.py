"""How the fields of a job file are read that say where its tasks may stand: nodes, levels, slices, spread, MIG."""

from difflib import get_close_matches

from gangline_core.room.mig import is_profile, profiles
from gangline_core.spec import Role, Toleration, TopologyWish, whole_slices
from gangline_wire.fields import each, entries, listed, mapping, note, read_fields, text, visible_text, whole
from gangline_wire.limits import most
from gangline_wire.names import token, visible
from gangline_wire.problem import FieldError, FieldErrorsError, WrongValueError

_TOKEN_CHARS = most("token_chars")
_LABEL_CHARS = most("label_chars")


def read_level(value: object) -> str:
    """Name of a topology level.

    Raises:
        WrongValueError: not one.
    """
    return token(text(value), _TOKEN_CHARS)


def read_topology(value: object) -> TopologyWish:
    """Required and preferred level, slices and spread.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    errors: list[FieldError] = []
    kept = read_fields(mapping(value), TOPOLOGY_FIELDS, errors)
    if errors:
        raise FieldErrorsError(errors)
    slices, spread = kept.pop("slices", {}), kept.pop("spread", {})
    return TopologyWish(**kept, **slices, **spread)


def read_slices(value: object) -> dict[str, int | str]:
    """So many tasks inside one domain of a level.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    errors: list[FieldError] = []
    kept = read_fields(mapping(value), SLICE_FIELDS, errors)
    _needs(kept, {"slice_tasks": "tasks", "slice_level": "level"}, errors)
    return kept


def read_spread(value: object) -> dict[str, int | str]:
    """A level, or a level with the most tasks in one of its domains.

    Raises:
        WrongValueError, FieldErrorsError: neither.
    """
    if isinstance(value, str):
        return {"spread_level": read_level(value)}
    errors: list[FieldError] = []
    kept = read_fields(mapping(value), SPREAD_FIELDS, errors)
    _needs(kept, {"spread_level": "level"}, errors)
    return kept


def read_exclude_nodes(value: object) -> tuple[str, ...]:
    """Nodes by name; one may stand alone.

    Raises:
        WrongValueError, FieldErrorsError: no such list.
    """
    items: list[object] = [value] if isinstance(value, str) else listed(value, "exclude_nodes")
    return tuple(sorted(set(each(items, _node))))


def read_mig(value: object) -> str:
    """A MIG profile.

    Raises:
        WrongValueError: no card can be cut so.
    """
    name = text(value).lower()
    if not is_profile(name):
        near = get_close_matches(name[:_TOKEN_CHARS], profiles(), n=1)
        advice = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(profiles())}"
        raise WrongValueError(f"is no MIG profile; {advice}")
    return name


def read_labels(value: object) -> dict[str, str]:
    """Names and texts.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    return entries(value, "labels", _label_key, visible_text("label_chars"))


def read_tolerations(value: object) -> tuple[Toleration, ...]:
    """A list of "key", "key=value" or {key, value}.

    Raises:
        WrongValueError, FieldErrorsError: no such list.
    """
    return each(listed(value, "tolerations"), _toleration)


def _toleration(value: object) -> Toleration:
    if isinstance(value, str):
        key, _, wanted = value.partition("=")
        return Toleration(key=_label_key(key), value=visible(text(wanted), _LABEL_CHARS))
    errors: list[FieldError] = []
    kept = read_fields(mapping(value), TOLERATION_FIELDS, errors)
    if "key" not in kept and not errors:
        errors.append(FieldError(path="key", message="is missing"))
    if errors:
        raise FieldErrorsError(errors)
    return Toleration(**kept)


def _label_key(value: object) -> str:
    key = visible(text(value), _LABEL_CHARS)
    if not key or "=" in key or " " in key:
        raise WrongValueError('must not be empty, nor contain "=" or spaces')
    return key


TOLERATION_FIELDS = {"key": ("key", _label_key), "value": ("value", visible_text("label_chars"))}


def in_slices(wish: TopologyWish | None, roles: tuple[Role, ...], errors: list[FieldError]) -> tuple[Role, ...]:
    """The roles with the sizes that are made of whole slices, and of these alone."""
    unit = wish.slice_tasks if wish is not None else 0
    for role in roles if unit else ():
        odd = next((size for size in (role.count, *role.sizes) if size % unit), None)
        if odd is not None:
            message = f"are {unit}, but role {role.name} may have {odd} tasks, which are no whole slices"
            note(errors, FieldError(path="topology.slices.tasks", message=message))
    return tuple(whole_slices(role, unit) for role in roles) if unit and not errors else roles


def _node(value: object) -> str:
    name: str = visible_text("label_chars")(value)
    if not name:
        raise WrongValueError("must not be empty")
    return name


def _needs(kept: dict[str, int | str], fields: dict[str, str], errors: list[FieldError]) -> None:
    for name, field in fields.items():
        if name not in kept and not errors:
            errors.append(FieldError(path=field, message="is missing"))
    if errors:
        raise FieldErrorsError(errors)


SLICE_FIELDS = {"tasks": ("slice_tasks", whole("tasks", least=1)), "level": ("slice_level", read_level)}
SPREAD_FIELDS = {"level": ("spread_level", read_level), "most": ("spread_most", whole("tasks", least=1))}
TOPOLOGY_FIELDS = {
    "required": ("required", read_level),
    "preferred": ("preferred", read_level),
    "slices": ("slices", read_slices),
    "spread": ("spread", read_spread),
}
