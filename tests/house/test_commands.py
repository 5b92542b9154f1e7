"""The commands a newcomer types fail with words that help."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS_OF_A_BARE_MACHINE = ("sh", "cat", "cksum", "dirname", "grep", "sed", "expand", "make")


@pytest.fixture
def bare_machine(tmp_path: Path) -> Path:
    """A folder of programs without any Python that will do."""
    for name in TOOLS_OF_A_BARE_MACHINE:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"this machine has no {name}")
        (tmp_path / name).symlink_to(found)
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.6.15" && exit 0\nexit 1\n', encoding="utf-8")
    old.chmod(0o755)
    return tmp_path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As much of a clone as the setup looks at."""
    copy = tmp_path / "clone"
    (copy / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools/setup", copy / "tools")
    shutil.copytree(ROOT / "requirements", copy / "requirements")
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def set_up(clone: Path, machine: Path, **named: str) -> "subprocess.CompletedProcess[str]":
    """Set the clone up with only the machine's programs."""
    return subprocess.run(
        [clone / "tools/setup", "run"],
        env={"PATH": str(machine), **named},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_old_python_is_named_with_what_to_do(bare_machine: Path, clone: Path) -> None:
    done = set_up(clone, bare_machine)
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "Python 3.6.15" in done.stderr
    assert not (clone / ".venv").exists()


def test_an_optimised_python_is_taken_before_one_that_is_not_and_one_that_is_named_before_all(
    bare_machine: Path, clone: Path
) -> None:
    for name, is_optimised in (("python3", 1), ("python3.12", 0), ("python3.11", 0)):
        program = bare_machine / name
        program.unlink(missing_ok=True)
        answer = f'case "$1 $2" in -c*sysconfig*) exit {is_optimised};; -m*) exit 1;; esac\n'
        program.write_text(f"#!/bin/sh\n{answer}", encoding="utf-8")
        program.chmod(0o755)
    assert f"({bare_machine}/python3.12)" in set_up(clone, bare_machine).stdout
    assert f"({bare_machine}/python3)" in set_up(clone, bare_machine, PYTHON="python3").stdout
    (bare_machine / "python3.12").unlink()
    (bare_machine / "python3.11").unlink()
    assert f"({bare_machine}/python3)" in set_up(clone, bare_machine).stdout


def test_make_alone_lists_the_commands() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("demo", "test", "bench", "check", "lock", "clean"):
        assert f"make {target} " in done.stdout


def test_an_unknown_step_of_the_check_is_refused() -> None:
    done = subprocess.run([ROOT / "tools/check", "no_such_step"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no step is called: no_such_step" in done.stderr
