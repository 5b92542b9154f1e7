"""Recipes name every file that a change of their kind touches."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVICE = "telemetry"
NAMES = re.compile(
    rf'gangline[_-]{SERVICE}\b|\b{SERVICE}:9100|gangline-keys/{SERVICE}\b|"{SERVICE.upper()}"'
    rf'|^\s+"?{SERVICE}"?: [{{R]|\b{SERVICE}  ',
    re.MULTILINE,
)
"""How a file names one of the services, where it would name a further one too."""
PLACES = (
    "*",
    "docker/*",
    "helm/gangline/*",
    "helm/gangline/templates/*",
    "libs/*/*.py",
    "services/gangline_embedded/*.py",
)
APART = {"CHANGELOG.md", "README.md"}
"""They tell of services and need not name each of them; of a chart's README the same holds, which is drawn."""


def test_the_recipe_for_a_service_names_every_file_that_names_the_services() -> None:
    found = {
        str(path.relative_to(ROOT))
        for place in PLACES
        for path in ROOT.glob(place)
        if path.is_file() and path.name not in APART and NAMES.search(path.read_text(errors="ignore"))
    }
    assert len(found) > 5
    recipe = (ROOT / "docs/recipes/add-a-service.md").read_text()
    assert sorted(file for file in found if f"`{file}`" not in recipe) == []


def test_the_recipes_last_words_are_steps_of_the_check() -> None:
    recipe = (ROOT / "docs/recipes/add-a-service.md").read_text()
    named = re.search(r"`tools/check ([a-z ]+)`", recipe)
    assert named is not None
    steps = re.findall(r"^\s+step (\w+) (\w+) ", (ROOT / "tools/check").read_text(), re.MULTILINE)
    assert set(named[1].split()) <= {name for step in steps for name in step}
