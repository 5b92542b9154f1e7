"""The walls hold: an import that goes through one is named by contract, module and line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PLANTED = {
    "libs/gangline_core/planted.py": "import time\nimport gangline_wire.codec\n",
    "libs/gangline_wire/planted.py": "import asyncio\nimport gangline_kit.clock\n",
    "libs/gangline_kit/planted.py": "import nats\nimport pynvml\nimport opentelemetry\nimport prometheus_client\n",
    "libs/gangline_lab/planted.py": "import gangline_kit.clock\n",
    "libs/gangline_client/planted.py": "import gangline_queue.app\n",
    "services/gangline_queue/planted.py": "import gangline_placement.app\nimport nats.js\nimport gangline_client\n",
    "services/gangline_agent/planted.py": "import pynvml\nimport gangline_embedded\n",
}
CAUGHT = (
    "gangline_core.planted -> time (l.1)",
    "gangline_core.planted -> gangline_wire.codec (l.2)",
    "gangline_wire.planted -> asyncio (l.1)",
    "gangline_wire.planted -> gangline_kit.clock (l.2)",
    "gangline_kit.planted -> nats (l.1)",
    "gangline_kit.planted -> pynvml (l.2)",
    "gangline_kit.planted -> opentelemetry (l.3)",
    "gangline_kit.planted -> prometheus_client (l.4)",
    "gangline_lab.planted -> gangline_kit.clock (l.1)",
    "gangline_client.planted -> gangline_queue.app (l.1)",
    "gangline_queue.planted -> gangline_placement.app (l.1)",
    "gangline_queue.planted -> nats (l.2)",
    "gangline_queue.planted -> gangline_client (l.3)",
    "gangline_agent.planted -> pynvml (l.1)",
    "gangline_agent.planted -> gangline_embedded (l.2)",
)


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the walls say about a copy of the tree with every kind of bad import planted in it."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in ("libs", "services"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "data"))
    shutil.copy(ROOT / ".importlinter", copy)
    for path, text in PLANTED.items():
        (copy / path).write_text(text, encoding="utf-8")
    # `-I` would hide the copy; PYTHONPATH puts it before the installed packages.
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    environment = {"PYTHONPATH": f"{copy / 'libs'}:{copy / 'services'}", "COLUMNS": "200"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("line", CAUGHT)
def test_an_import_through_a_wall_is_named_with_its_line(complaints: str, line: str) -> None:
    assert line in complaints
