"""The Dockerfile builds from what is there, from the hash lock, and its result runs as nobody special."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
TEXT = "\n".join(LINES)


def test_everything_that_is_copied_exists_and_is_not_ignored() -> None:
    let_through = {
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")
    }
    for line in LINES:
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), line
                assert source in let_through, line


def test_dependencies_come_from_the_hash_lock_only() -> None:
    assert "--require-hashes" in TEXT
    assert "-r requirements/run.txt" in TEXT
    installs = [line for line in TEXT.replace("\\\n", "").splitlines() if "pip install" in line]
    own = [line for line in installs if line.rstrip().endswith(" .")]
    assert len(own) == 1
    assert "--no-deps --no-build-isolation" in own[0]


def test_the_result_runs_without_root() -> None:
    users = [line.split()[1] for line in LINES if line.startswith("USER ")]
    assert users == ["10001:10001"]
    assert LINES.index("USER 10001:10001") > max(number for number, line in enumerate(LINES) if line.startswith("FROM"))


def test_the_image_has_the_python_that_the_locks_were_solved_for() -> None:
    assert {line.split()[1] for line in LINES if line.startswith("FROM")} == {"python:3.11.14-slim-bookworm"}
