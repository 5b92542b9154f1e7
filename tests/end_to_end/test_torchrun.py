"""The real torchrun grows and shrinks under the platform; skipped where no Python of this machine has torch."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.end_to_end.growing import STEPS, grown, sizes

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).parents[2] / "examples" / "torch_training.py"
PYTHONS = (sys.executable, "/usr/bin/python3")
"""Interpreters that may have torch: this one, or the system's, as Debian's python3-torch has it."""
TOLERANCE = 1e-9


@cache
def with_torch() -> str | None:
    """The first Python that has torch; None when none has."""
    for python in PYTHONS:
        tried = subprocess.run([python, "-c", "import torch.distributed.run"], capture_output=True, check=False)
        if not tried.returncode:
            return python
    return None


def torchrun(python: str) -> list[str]:
    """torchrun of this Python; its output is shown as it comes, which old versions do not do under new Pythons."""
    return [python, "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1"]


def final_loss(said: str) -> float:
    return float(next(line for line in said.splitlines() if "final loss" in line).split()[-1])


def undisturbed(python: str, folder: Path) -> float:
    command = [*torchrun(python), "--standalone", "--nnodes", "1", str(PROGRAM), str(folder), str(STEPS)]
    return final_loss(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


async def test_a_training_under_torchrun_grows_and_shrinks_and_loses_no_step(tmp_path: Path) -> None:
    python = with_torch()
    if python is None:
        pytest.skip("no Python here has torch (Debian: apt-get install python3-torch)")
    command = [*torchrun(python), str(PROGRAM)]
    ended, said = await grown(tmp_path, command, notice="60s", confirm="240s", limit_s=540)
    assert (ended.state, ended.exit_code, ended.attempt) == ("succeeded", 0, 1), said
    assert sizes(tmp_path)[9::10] == [1, 2, 4, 2]
    assert abs(final_loss(said) - undisturbed(python, tmp_path / "alone")) < TOLERANCE
