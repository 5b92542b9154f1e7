"""A YAML page with the line of everything in it, so that a wrong field is told where it stands."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gangline_client.errors import InputError
from gangline_wire.fields import join, str_key


@dataclass(frozen=True)
class Page:
    """A page and where it came from."""

    document: dict[str, Any]  # Any: what YAML holds; the platform is the judge of every field
    place: str
    lines: dict[str, int]
    """Line of every path, counted from 1."""

    def line(self, path: str) -> int:
        """The line of a path, or of the nearest thing above it that stands in the page."""
        while path and path not in self.lines:
            cut = max(path.rfind("."), path.rfind("["))
            path = path[:cut] if cut > 0 else ""
        return self.lines.get(path, 1)


def read_page(text: str, place: str) -> Page:
    """The page; JSON is YAML, too.

    Raises:
        InputError: it is neither, names a key twice, or holds something else than a mapping.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        node = yaml.compose(text, Loader=loader)
        document = yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"{mark.line + 1}: " if mark else " "
        raise InputError(f"{place}:{line}{getattr(error, 'problem', None) or error}") from error
    if not isinstance(document, dict):
        raise InputError(f"{place} must be a mapping of settings")
    return Page(_plain(document), place, lines_of(node, place))


def lines_of(node: Any, place: str) -> dict[str, int]:
    """The line, counted from 1, of every path of a document that was composed.

    Raises:
        InputError: a mapping names a key twice; YAML takes one of the two and loses the other.
    """
    lines: dict[str, int] = {}
    for path, number in _lines(node, "", set()):
        if path in lines:
            raise InputError(f"{place}:{number}: {path} stands twice, first in line {lines[path]}")
        lines[path] = number
    return lines


def _lines(node: Any, path: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Path and line of every key and entry below a node; what aliases name again is looked at once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if node.id == "mapping":
        for key, value in node.value:
            here = join(path, str_key(key.value))
            yield here, key.start_mark.line + 1
            yield from _lines(value, here, seen)
    elif node.id == "sequence":
        for index, value in enumerate(node.value):
            here = f"{path}[{index}]"
            yield here, value.start_mark.line + 1
            yield from _lines(value, here, seen)


def _plain(value: Any) -> Any:
    """What JSON can carry: moments become text with their offset, keys become text."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value.isoformat() if hasattr(value, "isoformat") else value
