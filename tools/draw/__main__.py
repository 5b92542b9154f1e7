"""Writes every generated page, or with --check says which ones are stale. Usage: python -m draw [--check]."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from draw import (
    asyncapi,
    chart,
    configuration,
    formula,
    http_api,
    job_file,
    messages,
    metrics,
    orderings,
    placement,
    proofs,
    reasons,
    requirements,
    states,
)

ROOT = Path(__file__).resolve().parent.parent.parent

BOARDS = sorted((ROOT / "boards").glob("*.json"))
"""Boards stand once; the chart, which cannot look outside of its folder, has a copy."""


def read_board(board: Path) -> str:
    """A board as it is."""
    return board.read_text(encoding="utf-8")


PAGES: dict[str, Callable[[], str]] = {
    "http-api.md": http_api.page,
    "job-file.md": job_file.page,
    "messages.md": messages.page,
    "states.md": states.page,
    "reasons.md": reasons.page,
    "formula.md": formula.page,
    "orderings.md": orderings.page,
    "placement.md": placement.page,
    "proofs.md": proofs.page,
    "metrics.md": metrics.page,
    "configuration.md": configuration.page,
    "requirements.md": requirements.page,
    "../helm/gangline/files/crds.json": chart.resource_definitions,
    "../helm/gangline/files/nats-users.json": chart.bus_users,
    "../helm/gangline/README.md": chart.settings_page,
    "integration/asyncapi.yaml": asyncapi.page,
}


PAGES |= {f"../helm/gangline/files/boards/{board.name}": partial(read_board, board) for board in BOARDS}


def stale(folder: Path) -> list[str]:
    """Names of pages that are missing or not what the tables say now."""
    return [name for name, page in PAGES.items() if read((folder / name).resolve()) != page()]


def read(path: Path) -> str:
    """The file's text, empty when there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> int:
    """Write the pages, or check them; 1 when a page is stale."""
    parser = argparse.ArgumentParser(prog="python -m draw", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is stale")
    arguments = parser.parse_args()
    names = stale(ROOT / "docs")
    if arguments.check:
        for name in names:
            print(f"docs/{name} is not what the code says: run make docs")
        return 1 if names else 0
    for name in names:
        (ROOT / "docs" / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"drew docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
