"""How rows become a table for people: aligned columns, numbers to the right, colour only where it is wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from unicodedata import east_asian_width

GAP = "  "
ELLIPSIS = "…"


class Paint(Enum):
    """The few colours there are, by meaning."""

    PLAIN = ""
    GOOD = "32"
    BUSY = "36"
    WAIT = "33"
    BAD = "31"
    FAINT = "2"
    STRONG = "1"


def painted(text: str, paint: Paint, *, colour: bool) -> str:
    """The text in its colour, or as it is."""
    if not colour or paint is Paint.PLAIN or not text:
        return text
    return f"\x1b[{paint.value}m{text}\x1b[0m"


@dataclass(frozen=True)
class Column:
    """One column: its head, where its text is pushed to, and whether it gives way when the terminal is narrow."""

    head: str
    right: bool = False
    gives_way: bool = False
    """The one column that is cut with an ellipsis to fit the width; best the last."""


@dataclass(frozen=True)
class Cell:
    """One cell and its colour."""

    text: str
    paint: Paint = Paint.PLAIN


Row = Sequence[str | Cell]


def render(columns: Sequence[Column], rows: Sequence[Row], *, colour: bool = False, width: int = 0) -> str:
    """The table as text, one line per row after the heads; `width` 0 never cuts.

    Control characters in a cell are shown as "?": what users name their jobs must not steer a terminal.
    """
    cells = [[_tame(cell) for cell in row] for row in rows]
    widths = [max([len(c.head), *(_width(row[i].text) for row in cells)]) for i, c in enumerate(columns)]
    _give_way(columns, widths, width)
    head = _line(columns, [Cell(column.head, Paint.FAINT) for column in columns], widths=widths, colour=colour)
    return "\n".join([head, *(_line(columns, row, widths=widths, colour=colour) for row in cells)])


def tame(text: str) -> str:
    """The text without control characters, on one line."""
    return "".join(_tame_character(character) for character in text)


def bar(used: int, total: int, *, cells: int = 8) -> str:
    """A bar such as "█████▌··" that is full only when everything is used and empty only when nothing is."""
    if total <= 0:
        return ""
    halves = min(2 * cells, max(0, round(2 * cells * used / total)))
    if 0 < used < total:
        halves = min(2 * cells - 1, max(1, halves))
    full, half = divmod(halves, 2)
    return "█" * full + "▌" * half + "·" * (cells - full - half)


def cut(text: str, width: int) -> str:
    """The text in at most so many columns, with an ellipsis where something is left out."""
    if _width(text) <= width:
        return text
    kept = ""
    for character in text:
        if _width(kept + character) > width - 1:
            break
        kept += character
    return kept + ELLIPSIS


def _line(columns: Sequence[Column], row: Sequence[Cell], *, widths: list[int], colour: bool) -> str:
    parts: list[str] = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        text = cut(cell.text, width)
        space = " " * (width - _width(text))
        shown = painted(text, cell.paint, colour=colour)
        parts.append(space + shown if column.right else shown + space)
    return GAP.join(parts).rstrip()


def _give_way(columns: Sequence[Column], widths: list[int], width: int) -> None:
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    for index, column in enumerate(columns):
        if width and excess > 0 and column.gives_way:
            widths[index] = max(len(column.head), 12, widths[index] - excess)


def _width(text: str) -> int:
    """Columns the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _tame(cell: str | Cell) -> Cell:
    cell = Cell(cell) if isinstance(cell, str) else cell
    return cell if cell.text.isprintable() else Cell(tame(cell.text), cell.paint)


def _tame_character(character: str) -> str:
    if character in "\n\r\t":
        return " "
    return character if character.isprintable() else "?"
