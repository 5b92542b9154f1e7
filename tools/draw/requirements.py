"""Draws docs/requirements.md: what was asked for, where it lives, which test shows it, what is missing."""

from draw.markdown import code, document, table
from draw.points import CHAPTERS, Point, Standing


def page() -> str:
    """The page."""
    blocks = []
    for title, points in CHAPTERS.items():
        blocks.append(f"## {title}")
        blocks.append(table(("Point", "Asked for", "Stands", "Lives in", "Shown by", "Missing"), map(row, points)))
    every = [point for points in CHAPTERS.values() for point in points]
    counts = ", ".join(f"{sum(point.standing is standing for point in every)} {standing}" for standing in Standing)
    return document(
        "What was asked for",
        f"Of {len(every)} points: {counts}. A test checks that every file named here exists.",
        *blocks,
    )


def row(point: Point) -> tuple[str, ...]:
    """One point's line of the table."""
    lives, shown_by = (", ".join(map(code, paths)) for paths in (point.lives, point.shown_by))
    return (point.id, point.asked, str(point.standing), lives, shown_by, point.missing)
