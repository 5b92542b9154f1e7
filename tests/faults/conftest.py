"""Real processes and real servers that are killed and paused; figures of how long it took are printed at the end."""

from collections.abc import Callable
from pathlib import Path

import pytest

RECOVERY = "recovery"
"""What a figure is called in a test's report, which crosses from the process that ran the test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.end_to_end)
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, float], None]:
    """Notes how many seconds something took."""

    def note(what: str, seconds: float) -> None:
        request.node.user_properties.append((RECOVERY, (what, seconds)))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call"
    ]
    figures = [figure for report in reports for name, figure in report.user_properties if name == RECOVERY]
    if figures:
        terminalreporter.section("recovery times")
        for what, seconds in figures:
            terminalreporter.write_line(f"{seconds:8.2f} s  {what}")
