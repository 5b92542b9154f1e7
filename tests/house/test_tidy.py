"""The tidy rules catch what they say they catch, and let good code pass."""

from pathlib import Path

import pytest

import tidy
from tidy import Source


def complaints(rule: object, text: str, path: str = "libs/gangline_core/planted.py") -> list[str]:
    return [problem.message for problem in rule(Source(path, text))]  # type: ignore[operator]  # rules are callables


def test_the_tree_itself_is_tidy() -> None:
    assert [str(problem) for problem in tidy.problems(tidy.ROOT)] == []


def test_a_function_of_sixty_one_lines_is_named_and_its_docstring_does_not_count() -> None:
    body = "    x = 1\n" * 59
    fits = f'def f():\n    """One.\n\n    Two.\n    """\n{body}'
    assert complaints(tidy.functions_fit_a_screen, fits) == []
    assert complaints(tidy.functions_fit_a_screen, fits + "    y = 2\n") == ["f has 61 lines; the limit is 60"]


def test_a_file_of_four_hundred_and_one_lines_is_named() -> None:
    assert complaints(tidy.files_stay_short, "x = 1\n" * 400) == []
    assert complaints(tidy.files_stay_short, "x = 1\n" * 401) == ["401 lines; the limit is 400"]


@pytest.mark.parametrize("path", ["libs/gangline_kit/utils.py", "services/x/job_manager.py", "libs/common/job.py"])
def test_a_module_without_a_noun_is_named(path: str) -> None:
    assert complaints(tidy.modules_have_a_noun, "", path)


@pytest.mark.parametrize(
    "line",
    [
        "x = f()  # noqa",
        "x = f()  # noqa: E501",
        "x = f()  # type: ignore",
        "x = f()  # type: ignore[arg-type]",
        "# ruff: noqa",
        "if x:  # pragma: no cover",
    ],
)
def test_a_suppression_without_rule_or_reason_is_named(line: str) -> None:
    assert complaints(tidy.suppressions_name_rule_and_reason, line)


@pytest.mark.parametrize(
    "line",
    [
        "x = f()  # noqa: E501 - the address is one word",
        "x = f()  # noqa: E501, B008  the address is one word",
        "x = f()  # type: ignore[arg-type]  # the stub is wrong here",
    ],
)
def test_a_suppression_with_rule_and_reason_passes(line: str) -> None:
    assert complaints(tidy.suppressions_name_rule_and_reason, line) == []


@pytest.mark.parametrize(
    "line",
    ["# TODO later", "raise NotImplementedError", "from unittest.mock import patch", "FIXME"],
)
def test_unfinished_work_and_mocks_are_named(line: str) -> None:
    assert complaints(tidy.no_banned_words, line)


@pytest.mark.parametrize(
    "line", ["pip install --index-url x", "see https://pypi.org/x", "open('/home/ada/x')", "cd /root/x"]
)
def test_addresses_and_paths_of_one_machine_are_named(line: str) -> None:
    assert complaints(tidy.no_foreign_addresses, line)


def test_a_service_without_readme_is_named(tmp_path: Path) -> None:
    room = tmp_path / "services" / "gangline_new"
    room.mkdir(parents=True)
    for name in ("__init__.py", "main.py", "app.py", "config.py"):
        (room / name).touch()
    assert [str(problem) for problem in tidy.services_are_whole(tmp_path)] == [
        "services/gangline_new:1: has no README.md"
    ]
