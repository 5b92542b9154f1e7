"""The dependency locks are whole, hashed, and name no address."""

import shutil
from pathlib import Path

import pytest

import locks


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project's locks, free to be spoiled."""
    shutil.copytree(locks.ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(locks.ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def spoil(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_locks_of_this_tree_are_whole() -> None:
    assert list(locks.problems(locks.ROOT)) == []


def test_an_address_in_a_lock_is_named(copy: Path) -> None:
    spoil(copy / "requirements/run.txt", "aiohttp==", "--extra-index-url https://example.org/simple\naiohttp==")
    assert any("pins and hashes only" in problem for problem in locks.problems(copy))


def test_a_dependency_that_is_not_locked_is_named(copy: Path) -> None:
    spoil(copy / "requirements/run.in", "aiohttp\n", "aiohttp\nnewcomer\n")
    spoil(copy / "pyproject.toml", '"aiohttp",', '"aiohttp", "newcomer",')
    assert "requirements/run.txt does not pin ['newcomer']: run make lock" in list(locks.problems(copy))


def test_a_dependency_that_only_the_project_file_names_is_named(copy: Path) -> None:
    spoil(copy / "pyproject.toml", '"aiohttp",', '"aiohttp", "newcomer",')
    assert any("newcomer" in problem and "differ" in problem for problem in locks.problems(copy))


def test_a_pin_without_hash_is_named(copy: Path) -> None:
    with (copy / "requirements/build.txt").open("a", encoding="utf-8") as lock:
        lock.write("bare==1.0\n")
    assert "requirements/build.txt has pins without a hash: ['bare']" in list(locks.problems(copy))


def test_run_and_dev_must_agree_on_versions(copy: Path) -> None:
    version = locks.pins((copy / "requirements/dev.txt").read_text(encoding="utf-8"))["aiohttp"]
    spoil(copy / "requirements/dev.txt", f"aiohttp=={version}", "aiohttp==0.0.1")
    assert "requirements/dev.txt pins other versions than run.txt: ['aiohttp']" in list(locks.problems(copy))
