"""Real processes and real servers that are killed and paused; figures of how long it took are printed at the end."""

from collections.abc import Callable
from pathlib import Path

import pytest

FIGURES: list[tuple[str, float]] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.end_to_end)
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture
def figure() -> Callable[[str, float], None]:
    """Notes how many seconds something took."""

    def note(what: str, seconds: float) -> None:
        FIGURES.append((what, seconds))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if FIGURES:
        terminalreporter.section("recovery times")
        for what, seconds in FIGURES:
            terminalreporter.write_line(f"{seconds:8.2f} s  {what}")
