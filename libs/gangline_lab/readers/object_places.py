"""Where in a file of objects a field stands: line and column, looked for only when something there is wrong.

The file is JSON (a List, or an object on each line) or YAML (a List, or documents). A field is told by its path from
the item down; where the whole path is not there, the deepest part of it that is.
"""

import json
import re
from collections.abc import Iterator

import yaml

from gangline_lab.rows import TraceError

Path = tuple[str | int, ...]
JSON, LINES, YAML = "json", "lines", "yaml"
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class Places:
    """The places of one file's items."""

    def __init__(self, file: str, data: bytes, form: str) -> None:
        """`form` is JSON, LINES or YAML."""
        self._file, self._data, self._form = file, data, form

    def error(self, item: int, path: Path, problem: str) -> TraceError:
        """A complaint about a field of the item with this number, from 0."""
        line, column = self._place(item, path)
        named = ".".join(str(part) for part in path)
        return TraceError(problem, file=self._file, line=line, column=f"{column} ({named})" if named else str(column))

    def _place(self, item: int, path: Path) -> tuple[int, int]:
        if self._form == YAML:
            return _in_yaml(self._data, item, path)
        text = self._data.decode("utf-8", errors="replace")
        if self._form == LINES:
            offset = _nth_line(self._data, item)
            return _line_and_column(text, _offset(text, offset, path))
        begin = _skip(text, 0)
        listed = _offset(text, begin, ("items",))
        whole = (item, *path) if listed != begin else path
        return _line_and_column(text, _offset(text, listed, whole))


def place_of_mistake(data: bytes) -> tuple[int, str, str]:
    """Line, column and what is wrong with what is no JSON; line 1 where Python's reader finds nothing."""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.lineno, str(error.colno), error.msg
    except (ValueError, RecursionError) as error:
        return 1, "", str(error)
    return 1, "", ""


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _nth_line(data: bytes, number: int) -> int:
    """After how many characters the line begins that is so many after the first one that is not empty.

    Lines of bytes, as the objects were read: in text U+2028 and others, which may stand inside a string, end some too.
    """
    offset = 0
    for line in data.splitlines(keepends=True):
        text = line.decode("utf-8", errors="replace")
        if line.strip():
            if not number:
                return offset + _skip(text, 0)
            number -= 1
        offset += len(text)
    return 0


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at


def _offset(text: str, at: int, path: Path) -> int:
    """Where the value at the end of the path begins, from the value that begins at `at`."""
    for step in path:
        found = next((place for name, place in _members(text, at) if name == step), None)
        if found is None:
            break
        at = found
    return at


def _members(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """Names, or numbers in a list, of what is in a value of well-formed JSON, and where each begins."""
    if text[at] not in "{[":
        return
    is_object, at, number = text[at] == "{", _skip(text, at + 1), 0
    while text[at] not in "}]":
        name: str | int = number
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        yield name, at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        at, number = _skip(text, at + 1) if text[at] == "," else at, number + 1


def _in_yaml(data: bytes, item: int, path: Path) -> tuple[int, int]:
    """Line and column in documents of YAML, each an item or a list of them."""
    for document in yaml.compose_all(data, Loader=yaml.SafeLoader):
        if document is None or (isinstance(document, yaml.ScalarNode) and not document.value):
            continue
        listed = _below(document, "items")
        nodes = listed.value if isinstance(listed, yaml.SequenceNode) else [document]
        if item < len(nodes):
            node = nodes[item]
            for step in path:
                deeper = _below(node, step)
                if deeper is None:
                    break
                node = deeper
            return node.start_mark.line + 1, node.start_mark.column + 1
        item -= len(nodes)
    return 1, 1


def _below(node: yaml.Node, step: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        found: yaml.Node = node.value[step]
        return found
    return None
