"""Settings from the environment."""

import pytest
from msgspec import Struct

from gangline_kit.config import ConfigError, KitConfig, load, load_kit


class Door(Struct, frozen=True):
    first_group: str = "default"


class GatewayConfig(Struct, frozen=True):
    port: int = 8080
    gather_ms: float = 0.002
    heartbeat_s: float = 15.0
    is_open: bool = False
    hosts: str = ""


def test_what_is_not_set_has_its_default() -> None:
    assert load(GatewayConfig, "gateway", {}) == GatewayConfig()
    assert load_kit({}).nats_url == "nats://127.0.0.1:4222"


def test_values_are_read_as_their_types() -> None:
    environ = {"GANGLINE_GATEWAY_PORT": "9", "GANGLINE_GATEWAY_GATHER_MS": "0.5", "GANGLINE_GATEWAY_IS_OPEN": "true"}
    assert load(GatewayConfig, "gateway", environ) == GatewayConfig(port=9, gather_ms=0.5, is_open=True)


def test_an_unknown_setting_is_refused_naming_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"GANGLINE_GATEWAY_PROT; did you mean GANGLINE_GATEWAY_PORT\?"):
        load(GatewayConfig, "gateway", {"GANGLINE_GATEWAY_PROT": "1"})
    with pytest.raises(ConfigError, match="unknown setting GANGLINE_LOGLEVEL"):
        load_kit({"GANGLINE_LOGLEVEL": "debug"})


def test_a_value_that_does_not_fit_is_refused_naming_the_field() -> None:
    with pytest.raises(ConfigError, match="port"):
        load(GatewayConfig, "gateway", {"GANGLINE_GATEWAY_PORT": "many"})


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    environ = {"GANGLINE_GATEWAY_PORT": "", "GANGLINE_GATEWAY_HOSTS": "", "GANGLINE_GATEWAY_IS_OPEN": ""}
    assert load(GatewayConfig, "gateway", environ) == GatewayConfig()
    assert load_kit({"GANGLINE_HTTP_HOST": "", "GANGLINE_NATS_URL": ""}) == KitConfig(), "not all addresses there are"
    assert load(Door, "admission", {"GANGLINE_ADMISSION_FIRST_GROUP": ""}).first_group == "", "no group is made"


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "-inf"])
def test_a_number_that_counts_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^GANGLINE_GATEWAY_GATHER_MS is .* it must be a number from 0 on$"):
        load(GatewayConfig, "gateway", {"GANGLINE_GATEWAY_GATHER_MS": text})
    assert load_kit({"GANGLINE_HTTP_PORT": "-1"}).http_port == -1, "which means that none is served"
    with pytest.raises(ConfigError, match="GANGLINE_HTTP_PORT is -2; it must be a number from -1 on"):
        load_kit({"GANGLINE_HTTP_PORT": "-2"})


def test_what_paces_or_bounds_something_cannot_be_0_and_what_is_gathered_can() -> None:
    with pytest.raises(ConfigError, match=r"^GANGLINE_GATEWAY_HEARTBEAT_S is 0.0; it must be a number above 0$"):
        load(GatewayConfig, "gateway", {"GANGLINE_GATEWAY_HEARTBEAT_S": "0.0"})
    with pytest.raises(ConfigError, match="GANGLINE_REPLICAS is 0; it must be a number above 0"):
        load_kit({"GANGLINE_REPLICAS": "0"})
    zeroes = {"GANGLINE_GATEWAY_GATHER_MS": "0", "GANGLINE_GATEWAY_PORT": "0", "GANGLINE_GATEWAY_IS_OPEN": "0"}
    assert load(GatewayConfig, "gateway", zeroes) == GatewayConfig(port=0, gather_ms=0.0)


def test_secrets_do_not_stand_in_the_refusal() -> None:
    with pytest.raises(ConfigError) as caught:
        load_kit({"GANGLINE_NATS_PASSWORT": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_services_in_one_process_do_not_trip_over_each_others_settings() -> None:
    environ = {"GANGLINE_QUEUE_GATHER_MS": "3", "GANGLINE_GATEWAY_PORT": "1", "GANGLINE_HTTP_PORT": "2"}
    assert load_kit(environ).http_port == 2
    assert load(GatewayConfig, "gateway", environ).port == 1


def test_a_service_may_be_started_from_inside_a_job_or_beside_a_client() -> None:
    environ = {"GANGLINE_JOB_ID": "42", "GANGLINE_TASK_ID": "42-1-worker-0", "GANGLINE_URL": "x", "GANGLINE_TOKEN": "y"}
    assert load_kit(environ) == load_kit({})
