"""How a mapping's fields are read one by one, so that every wrong one is told with its path and a typo is named."""

from collections.abc import Callable, Collection, Mapping, Sized
from difflib import get_close_matches
from typing import Any, TypeVar

from gangline_wire.limits import most
from gangline_wire.names import bare_name, visible
from gangline_wire.problem import FieldError, FieldErrorsError, WrongValueError
from gangline_wire.quantity import kind_name, shown

T = TypeVar("T")
Reader = Callable[[object], Any]
"""Turns a value into what is kept, or raises WrongValueError (or FieldErrorsError with paths below the value)."""
Fields = Mapping[str, tuple[str, Reader]]
"""Field name -> (name of what is kept, reader)."""

_ERRORS_MOST = most("errors")
_NAMED_MOST = 12
"""So many fields are named to somebody who is near none of them; of more, the page tells."""
_ADVISED_MOST = 10
"""So many unknown fields are answered with the nearest known one, which takes longer than all the rest."""


def read_fields(document: Mapping[object, object], fields: Fields, errors: list[FieldError]) -> dict[str, Any]:
    """The kept values by their names; what is wrong goes to `errors`. When these are full, nothing more is read."""
    kept: dict[str, Any] = {}
    for key, value in document.items():
        if is_full(errors):
            break
        field = fields.get(key)  # type: ignore[call-overload]  # a key that is no text is simply not found
        if field is None:
            advice = unknown_field(key, fields) if len(errors) < _ADVISED_MOST else "is not a known field"
            note(errors, FieldError(path=str_key(key), message=advice))
            continue
        name, reader = field
        if name in kept:
            note(errors, FieldError(path=str_key(key), message="says the same as another field; give one of them"))
            continue
        try:
            kept[name] = reader(value)
        except WrongValueError as error:
            note(errors, FieldError(path=str_key(key), message=str(error)))
        except FieldErrorsError as below:
            for wrong in below.errors:
                note(errors, FieldError(path=join(str_key(key), wrong.path), message=wrong.message))
    return kept


def note(errors: list[FieldError], error: FieldError) -> None:
    """Remember an error, up to the limit."""
    if len(errors) < _ERRORS_MOST:
        errors.append(error)


def is_full(errors: Sized) -> bool:
    """True when no more errors are told: whoever reads on works for nobody."""
    return len(errors) >= _ERRORS_MOST


def join(path: str, below: str) -> str:
    """One path from two: ("roles", "[0].memory") is "roles[0].memory"."""
    if not path or not below:
        return path or below
    return f"{path}{below}" if below.startswith("[") else f"{path}.{below}"


def str_key(key: object) -> str:
    """A mapping's key as it may stand in a path; an empty one is still to be seen there."""
    return shown(bare_name(key if isinstance(key, str) else str(key))) or '""'


def unknown_field(key: object, known: Collection[str]) -> str:
    """Advice about a field that does not exist: the nearest that does."""
    if not isinstance(key, str):
        return f"field names are text, not {kind_name(key)}"
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key[:80]).replace("-", "_")
    near = get_close_matches(snake.lstrip("_"), known, n=1, cutoff=0.6)
    if near:
        return f'is not a known field; did you mean "{near[0]}"?'
    names = sorted(known)
    return "is not a known field" + (f"; known here are {', '.join(names)}" if len(names) <= _NAMED_MOST else "")


def mapping(value: object) -> Mapping[object, object]:
    """The value, when it is a mapping.

    Raises:
        WrongValueError: it is not.
    """
    if isinstance(value, dict):
        return value
    raise WrongValueError(f"must be a mapping, not {kind_name(value)}")


def text(value: object) -> str:
    """The value, when it is text that UTF-8 can hold.

    Raises:
        WrongValueError: it is not.
    """
    if type(value) is str:
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise WrongValueError("contains half of a character (a lone surrogate)")
        return value
    if isinstance(value, bool | int | float):
        raise WrongValueError(f'must be text, not {kind_name(value)}; write it in quotes: "{str(value)[:24].lower()}"')
    raise WrongValueError(f"must be text, not {kind_name(value)}")


def flag(value: object) -> bool:
    """true or false.

    Raises:
        WrongValueError: it is neither.
    """
    if type(value) is bool:
        return value
    raise WrongValueError(f"must be true or false, not {kind_name(value)}")


def whole(limit: str, *, least: int = 0) -> Reader:
    """A reader of whole numbers from `least` to the named limit; 2.0 is 2, text is refused."""
    top = most(limit)

    def read(value: object) -> int:
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise WrongValueError(f"must be a whole number, not {kind_name(value)}{_fraction(value)}")
        if not least <= value <= top:
            raise WrongValueError(f"must be from {least} to {top}")
        return value

    return read


def listed(value: object, limit: str) -> list[object]:
    """The value, when it is a list within the named limit.

    Raises:
        WrongValueError: it is not.
    """
    if not isinstance(value, list | tuple):
        raise WrongValueError(f"must be a list, not {kind_name(value)}")
    if len(value) > most(limit):
        raise WrongValueError(f"has {len(value)} entries; at most {most(limit)} are allowed ({limit})")
    return list(value)


def each(items: list[object], reader: Callable[[object], T]) -> tuple[T, ...]:
    """Every item read.

    Raises:
        FieldErrorsError: some items are wrong; their paths are "[k]".
    """
    read: list[T] = []
    errors: list[FieldError] = []
    for index, item in enumerate(items):
        if is_full(errors):
            break
        try:
            read.append(reader(item))
        except WrongValueError as error:
            note(errors, FieldError(path=f"[{index}]", message=str(error)))
        except FieldErrorsError as below:
            for wrong in below.errors:
                note(errors, FieldError(path=join(f"[{index}]", wrong.path), message=wrong.message))
    if errors:
        raise FieldErrorsError(errors)
    return tuple(read)


def entries(value: object, limit: str, key: Callable[[object], str], reader: Callable[[object], T]) -> dict[str, T]:
    """A mapping of names to values, both read, within the named limit.

    Raises:
        WrongValueError: no mapping, or too many entries.
        FieldErrorsError: some entries are wrong.
    """
    items = mapping(value)
    if len(items) > most(limit):
        raise WrongValueError(f"has {len(items)} entries; at most {most(limit)} are allowed ({limit})")
    read: dict[str, T] = {}
    errors: list[FieldError] = []
    for name, item in items.items():
        try:
            clean = key(name)
            if clean in read:
                raise WrongValueError("stands twice (its spellings are equal in normal form)")
            read[clean] = reader(item)
        except WrongValueError as error:
            note(errors, FieldError(path=str_key(name), message=str(error)))
    if errors:
        raise FieldErrorsError(errors)
    return read


def visible_text(limit: str) -> Reader:
    """A reader of visible text within the named limit."""
    top = most(limit)

    def read(value: object) -> str:
        return visible(text(value), top)

    return read


def _fraction(value: object) -> str:
    return " with a fraction" if isinstance(value, float) else ""
