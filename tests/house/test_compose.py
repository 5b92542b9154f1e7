"""docker-compose.yml runs every service, closed, with settings the services understand."""

import importlib
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangline_embedded.keys import make_keys
from gangline_kit.config import load, load_kit
from gangline_kit.ids import SystemIds
from gangline_wire.rights import OWN
from gangline_wire.streams import MESSAGE_BYTES_MAX

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(set(SERVICES) - {"nats", "keys"})
HOST_ONLY = {"gangline", "gangline-embedded"}
"""Entry points that run on the user's machine, not in the composition."""


def test_every_service_entry_point_is_in_the_composition() -> None:
    assert {SERVICES[name]["command"][0] for name in OURS} == set(PROJECT["scripts"]) - HOST_ONLY


def test_every_service_of_ours_runs_the_image_of_this_version() -> None:
    assert {SERVICES[name]["image"] for name in [*OURS, "keys"]} == {f"gangline:{PROJECT['version']}"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_container_is_closed(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["user"] == "10001:10001"
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged", False)


def test_only_the_http_api_is_published_and_only_on_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"gateway": ["127.0.0.1:8470:8470"]}
    assert COMPOSE["networks"]["bus"] == {"internal": True}


@pytest.mark.parametrize("name", OURS)
def test_a_service_understands_every_setting_it_is_given(name: str) -> None:
    environment = {key: str(value) for key, value in SERVICES[name]["environment"].items()}
    assert load_kit(environment).nats_user == name
    load(importlib.import_module(f"gangline_{name}.config").Config, name, environment)


def test_every_user_of_the_bus_has_its_own_password_file() -> None:
    files = {SERVICES[name]["environment"]["GANGLINE_NATS_PASSWORD_FILE"] for name in OURS}
    assert files == {f"/var/lib/gangline-keys/{name}.password" for name in OWN}


def test_every_named_volume_and_mounted_file_exists() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / source).is_file(), volume


def test_the_bus_server_accepts_its_settings(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docker/nats.conf", tmp_path)
    make_keys(tmp_path / "keys", SystemIds())
    server = Path(sysconfig.get_path("scripts"), "nats-server")
    checked = subprocess.run(
        [server, "-t", "-c", tmp_path / "nats.conf"], capture_output=True, text=True, timeout=20, check=False
    )
    assert checked.returncode == 0, checked.stderr
    settings = (tmp_path / "nats.conf").read_text(encoding="utf-8")
    assert f"max_payload: {MESSAGE_BYTES_MAX}\n" in settings
    assert "sync_interval: always" in settings


def test_the_keys_command_says_what_it_made(tmp_path: Path) -> None:
    command = [sys.executable, "-m", SERVICES["keys"]["command"][2], str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "gateway" in done.stdout
