"""What a benchmark starts on this machine is gone when the benchmark is over."""

import tempfile
from pathlib import Path

import pytest

from bench import switch


async def test_the_switch_is_measured_and_leaves_no_process_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(switch, "SWITCHES", 1)
    [took_ms] = await switch.switch_ms()
    assert took_ms > 0
    assert commands_that_name(tmp_path) == []


def commands_that_name(folder: Path) -> list[str]:
    """The commands of this machine's processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
        if str(folder) in command:
            found.append(command)
    return found
