"""docker-compose.yml runs every service, closed, with settings the services understand."""

import importlib
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import programs
from gangline_embedded.keys import make_keys
from gangline_kit.config import load, load_kit
from gangline_kit.ids import SystemIds
from gangline_kit.metrics import METRICS
from gangline_wire.rights import OWN, READER
from gangline_wire.streams import MESSAGE_BYTES_MAX

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OTHERS = {"nats", "prometheus", "grafana", "traces"}
"""Programs of others."""
OURS = sorted(set(SERVICES) - OTHERS - {"keys"})
PROFILES = ("gpu", "simulated", "traces", "kubernetes")
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


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_container_has_limits(name: str) -> None:
    assert SERVICES[name]["mem_limit"]
    assert SERVICES[name]["cpus"]
    assert SERVICES[name]["pids_limit"]


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"keys"}))
def test_every_container_says_how_it_is(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


def test_what_is_published_is_published_on_loopback_only() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"gateway", "grafana", "traces"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)
    assert COMPOSE["networks"]["bus"] == {"internal": True}


@pytest.mark.parametrize("name", OURS)
def test_a_service_understands_every_setting_it_is_given(name: str) -> None:
    kind = name.partition("-")[0]
    environment = {key: str(value) for key, value in SERVICES[name]["environment"].items()}
    assert load_kit(environment).nats_user == kind
    load(importlib.import_module(f"gangline_{kind}.config").Config, kind, environment)


def test_every_user_of_the_bus_has_its_own_password_file() -> None:
    files = {SERVICES[name]["environment"]["GANGLINE_NATS_PASSWORD_FILE"] for name in OURS}
    assert files == {f"/var/lib/gangline-keys/{name}.password" for name in OWN}


def test_every_container_is_shown_its_own_password_and_nobody_elses(tmp_path: Path) -> None:
    make_keys(tmp_path, SystemIds(), apart=True)
    folders = {path.name for path in tmp_path.iterdir()}
    assert folders == {*OWN, "nats", "grafana", READER}
    for name, service in SERVICES.items():
        keys = [volume.split(":")[0] for volume in service.get("volumes", []) if volume.startswith("keys-")]
        user = "nats" if name == "nats" else "grafana" if name == "grafana" else name.partition("-")[0]
        wanted = [f"keys-{folder}" for folder in sorted(folders)] if name == "keys" else [f"keys-{user}"]
        assert sorted(keys) == (wanted if name not in ("prometheus", "traces") else [])
    for folder in folders - {"nats"}:
        assert [path.name for path in (tmp_path / folder).iterdir()] == [f"{folder}.password"]
    made = {line.split("/")[4].rstrip("\\ ") for line in _made_folders() if line.count("/") == 4}
    assert made == folders, "a fresh volume gets the owner that its folder has in the image"


def _made_folders() -> list[str]:
    words = (ROOT / "Dockerfile").read_text(encoding="utf-8").split()
    return [word for word in words if word.startswith("/var/lib/gangline-keys/")]


def test_gpus_are_lent_by_profile_only() -> None:
    lent = {name for name, service in SERVICES.items() if "deploy" in service}
    assert lent == {"agent-gpu"}
    (device,) = SERVICES["agent-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
    assert SERVICES["agent-gpu"]["profiles"] == ["gpu"]


def test_every_named_volume_and_mounted_file_exists() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", volume).split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / source).exists(), volume


def test_the_bus_server_accepts_its_settings(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docker/nats.conf", tmp_path)
    make_keys(tmp_path / "all", SystemIds(), apart=True)
    (tmp_path / "all" / "nats").rename(tmp_path / "keys")
    server = Path(sysconfig.get_path("scripts"), "nats-server")
    checked = subprocess.run(
        [server, "-t", "-c", tmp_path / "nats.conf"], capture_output=True, text=True, timeout=300, check=False
    )
    assert checked.returncode == 0, checked.stderr
    settings = (tmp_path / "nats.conf").read_text(encoding="utf-8")
    assert f"max_payload: {MESSAGE_BYTES_MAX}\n" in settings
    assert "sync_interval: always" in settings


COMPOSE_PROGRAM, HADOLINT = programs.found("docker-compose"), programs.found("hadolint")


@pytest.mark.skipif(COMPOSE_PROGRAM is None, reason=programs.why_not("docker-compose"))
@pytest.mark.parametrize("profiles", [(), PROFILES], ids=["usual", "all"])
def test_the_real_compose_reads_it(profiles: tuple[str, ...]) -> None:
    chosen = [word for profile in profiles for word in ("--profile", profile)]
    command = [str(COMPOSE_PROGRAM), "-f", str(ROOT / "docker-compose.yml"), *chosen, "config", "--services"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower()
    usual = {name for name, service in SERVICES.items() if not service.get("profiles")}
    assert set(done.stdout.split()) == (set(SERVICES) if profiles else usual)


@pytest.mark.skipif(HADOLINT is None, reason=programs.why_not("hadolint"))
def test_hadolint_has_nothing_to_say_of_the_dockerfile() -> None:
    done = subprocess.run(
        [str(HADOLINT), str(ROOT / "Dockerfile")], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_every_service_of_ours_is_scraped() -> None:
    settings = yaml.safe_load((ROOT / "docker/prometheus.yml").read_text(encoding="utf-8"))
    (scraped,) = settings["scrape_configs"][0]["static_configs"]
    assert set(scraped["targets"]) == {f"{name}:9100" for name in OURS}


@pytest.mark.parametrize("board", sorted((ROOT / "boards").glob("*.json")), ids=lambda path: path.stem)
def test_every_board_shows_metrics_there_are(board: Path) -> None:
    text = board.read_text(encoding="utf-8")
    for panel in json.loads(text)["panels"]:
        for target in panel.get("targets", ()):
            named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"gangline_\w+", target["expr"])}
            assert named or "DCGM_" in target["expr"]
            assert named <= set(METRICS), panel["title"]


def test_the_keys_command_says_what_it_made(tmp_path: Path) -> None:
    command = [sys.executable, *SERVICES["keys"]["command"][1:-1], str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "gateway" in done.stdout
    assert (tmp_path / "reader" / "reader.password").exists()


def test_no_word_of_a_health_check_holds_a_space() -> None:
    for name, service in SERVICES.items():
        assert not [word for word in service.get("healthcheck", {}).get("test", ()) if " " in word], name


def test_every_image_of_others_is_named_by_an_exact_tag() -> None:
    for name, service in SERVICES.items():
        version = service["image"].rpartition(":")[2]
        assert re.match(r"v?\d+\.\d+\.\d+(-[a-z0-9.]+)?$", version), name
