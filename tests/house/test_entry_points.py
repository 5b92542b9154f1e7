"""Every console command of the distribution exists, and every package is in it."""

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCRIPTS: dict[str, str] = PYPROJECT["project"]["scripts"]


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_a_console_command_leads_to_a_function(script: str) -> None:
    module, _, name = SCRIPTS[script].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_every_package_is_in_the_wheel() -> None:
    found = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("*/gangline_*/__init__.py")}
    assert set(PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == found


def test_every_service_has_a_console_command() -> None:
    services = {path.parent.name.replace("_", "-") for path in ROOT.glob("services/gangline_*/__init__.py")}
    assert services <= set(SCRIPTS)


def test_the_version_heads_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {PYPROJECT['project']['version']}" in changelog
