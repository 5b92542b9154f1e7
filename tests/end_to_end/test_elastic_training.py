"""A real training on this machine grows and shrinks under load from other jobs, and ends as if nothing had happened."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.end_to_end.growing import STEPS, grown, sizes

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).parents[2] / "examples" / "elastic_training.py"


def undisturbed(folder: Path) -> str:
    """What the program says when it runs alone, without any platform."""
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), str(STEPS)], check=True, capture_output=True, text=True
    ).stdout


async def test_a_training_grows_and_shrinks_under_load_and_loses_no_step(tmp_path: Path) -> None:
    ended, said = await grown(tmp_path, [sys.executable, str(PROGRAM)], notice="30s", confirm="60s", limit_s=500)
    assert (ended.state, ended.exit_code) == ("succeeded", 0), said
    seen = sizes(tmp_path)
    assert (seen[9], seen[10], seen[20], seen[30]) == (1, 2, 4, 2)
    assert undisturbed(tmp_path / "alone") in said
