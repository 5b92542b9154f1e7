"""The few Markdown shapes the generated pages are made of."""

from collections.abc import Iterable, Sequence


def document(title: str, *blocks: str) -> str:
    """A whole page from its blocks, saying that it is generated."""
    notice = "<!-- Drawn by `make docs` from the code; edit the code, not this page. -->"
    return "\n\n".join((f"# {title}", notice, *(block.strip("\n") for block in blocks if block))) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may hold inline Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(cell(text) for text in row) + " |" for row in rows]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Text that cannot break out of its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """Inline code."""
    return f"`{text}`"


def anchor(title: str) -> str:
    """The fragment that a heading is reached by."""
    return "#" + title.lower().replace(" ", "-")
