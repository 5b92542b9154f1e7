"""What the world outside refuses, as one line for people, and files that are written whole or not at all."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from gangline_core.groups import Group
from gangline_core.settings import check_group_alone

PART = ".part"
"""How the name of a file ends that is not finished."""


class PageError(Exception):
    """A YAML page that cannot be read or makes no sense; the message is one line, and says where."""


def missing(library: str, what_for: str) -> str:
    """What to say where an optional library is not installed; it must go where this Python looks for it."""
    return f"{what_for} needs {library}: {sys.executable} -m pip install {library}"


def said(error: BaseException) -> str:
    """An error of files, without its number and without the name that stands beside it anyway."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def tame(text: str) -> str:
    """The text without control characters: what stands in somebody's file must not steer a terminal."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "?" for one in text)


def read_page(path: Path) -> Any:  # Any: what YAML holds; the caller says what it must be
    """What a YAML page holds.

    Raises:
        PageError: it cannot be read, is no YAML, or names something twice, of which YAML keeps the last one only.
    """
    name = path.name or str(path)
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        twice = _named_twice(node, set())
        if twice is not None:
            raise PageError(f"{name}, line {twice.start_mark.line + 1}: {twice.value} stands twice")
        return yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise PageError(f"{name}: is no UTF-8 text") from error
    except RecursionError as error:
        raise PageError(f"{name}: is nested too deeply") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise PageError(f"{name}{where}: {error.problem or 'is no YAML'}") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise PageError(f"{name}: {said(error).splitlines()[0]}") from error


def _named_twice(node: Any, seen: set[int]) -> Any:  # Any: a node of PyYAML, which has no types
    """The first key that its mapping has already; what aliases name again is looked at once."""
    if node is None or id(node) in seen or node.id == "scalar":
        return None
    seen.add(id(node))
    if node.id == "sequence":
        return next(filter(None, (_named_twice(one, seen) for one in node.value)), None)
    keys: set[str] = set()
    for key, value in node.value:
        if key.id == "scalar" and key.value in keys:
            return key
        keys.add(key.value if key.id == "scalar" else "")
        found = _named_twice(value, seen)
        if found is not None:
            return found
    return None


def check_groups(path: Path, groups: tuple[Group, ...]) -> None:
    """Refuse what could be no group, and what a page names twice.

    Raises:
        PageError: with the group and its field.
    """
    for place, group in enumerate(groups):
        problem = check_group_alone(group)
        if problem is not None:
            raise PageError(f"{path.name}: groups[{place}].{problem.field}: {problem.message}")
        if any(other.path == group.path for other in groups[:place]):
            raise PageError(f"{path.name}: groups[{place}].path: {group.path or 'the root'} stands twice")


@contextmanager
def written_if_asked(path: Path | None) -> Iterator[Path | None]:
    """The same of a file that nobody need have asked for."""
    if path is None:
        yield None
    else:
        with written_whole(path) as part:
            yield part


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file beside `path` to write into, which takes its place in the end; when anything goes wrong, nothing is there.

    Raises:
        OSError: nothing can be written there; this comes before anything is worked out for it.
    """
    if path.is_dir():
        raise IsADirectoryError(21, "is a folder; name a file", str(path))
    part = path.with_name(path.name + PART)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    except OSError as error:
        raise OSError(error.errno, f"cannot be written: {said(error)}", str(path)) from error
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
