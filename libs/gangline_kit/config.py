"""Settings from the environment: GANGLINE_* variables into a Struct; an unknown or malformed one is an error."""

import difflib
import os
from collections.abc import Iterable, Mapping
from math import inf
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

PREFIX = "GANGLINE_"

SERVICES = (
    "GATEWAY",
    "ADMISSION",
    "QUEUE",
    "PLACEMENT",
    "ELASTIC",
    "TELEMETRY",
    "ACCOUNTING",
    "RECORDER",
    "AGENT",
    "EMBEDDED",
    "KUBERNETES",
)
"""Each service reads GANGLINE_<SERVICE>_*; one process may hold several, so each looks at its own only."""

CLIENT_KEYS = ("GANGLINE_URL", "GANGLINE_TOKEN", "GANGLINE_DATA", "GANGLINE_OUTPUT", "GANGLINE_PROFILE")
"""Variables of the command line; they may be set around a service and mean nothing to it."""

JOB_PREFIXES = ("GANGLINE_JOB_", "GANGLINE_TASK_", "GANGLINE_ROLE_", "GANGLINE_POOL", "GANGLINE_GROUP", "GANGLINE_NODE")
"""Variables an agent gives to jobs; a service started from inside a job sees them."""

T = TypeVar("T", bound=Struct)


class ConfigError(Exception):
    """A setting is unknown or malformed; the message names the variable."""


class KitConfig(Struct, frozen=True, kw_only=True):
    """What every service needs; read from GANGLINE_<FIELD>."""

    nats_url: str = "nats://127.0.0.1:4222"
    nats_user: str = ""
    nats_password: str = ""
    nats_password_file: str = ""
    """File that holds the password, where it must not stand in the environment; used when nats_password is empty."""
    nats_ca_file: str = ""
    """Certificate authority for a tls:// server; empty uses the system's."""
    ensure: bool = True
    """Create streams and buckets that are missing; false for users without the right to."""
    replicas: int = 1
    """Copies of each stream; 3 on a cluster of three servers."""
    instance: str = ""
    """Name of this process among its like; made up when empty."""
    http_host: str = "127.0.0.1"
    http_port: int = -1
    """Port of /livez /readyz /metrics; 0 takes a free one, -1 serves none."""
    parent_pid: int = 0
    """Process that must stay our parent; when it is gone, so are we. 0 stands on its own feet."""
    otlp_endpoint: str = ""
    """Base URL of an OTLP/HTTP collector; empty exports nothing."""
    log_level: str = "info"


EMPTY_MEANS_NONE = frozenset({"first_group"})
"""Settings of which the empty text says something else than that they are not set."""
ZERO_COUNTS = frozenset(
    {
        *("gather_ms", "gather_ms_max", "settle_ms", "share_wait_s", "shutdown_s"),
        *("port", "oidc_skew_s", "orphan_s", "output_head_mib", "output_tail_mib"),
        *("log_keep_s", "rest_s", "stall_s", "suspect_s", "at_once_s", "metrics_gpus_max"),
    }
)
"""Settings that may be 0 although they are not by default: others would stop what they pace, or end what they bound."""


def load_kit(environ: Mapping[str, str] | None = None) -> KitConfig:
    """The settings every service shares.

    Raises:
        ConfigError: an unknown GANGLINE_ variable, or a value that does not fit.
    """
    environ = os.environ if environ is None else environ
    foreign = tuple(f"{PREFIX}{service}_" for service in SERVICES) + JOB_PREFIXES
    own = {
        key: value
        for key, value in environ.items()
        if key.startswith(PREFIX) and key not in CLIENT_KEYS and not key.startswith(foreign)
    }
    return _convert(own, KitConfig, prefix=PREFIX)


def load(kind: type[T], service: str, environ: Mapping[str, str] | None = None) -> T:
    """A service's own settings, read from GANGLINE_<SERVICE>_<FIELD>; `service` is its short name, such as "gateway".

    Raises:
        ConfigError: an unknown variable with this prefix, or a value that does not fit.
    """
    environ = os.environ if environ is None else environ
    prefix = f"{PREFIX}{service.upper()}_"
    own = {key: value for key, value in environ.items() if key.startswith(prefix)}
    return _convert(own, kind, prefix=prefix)


def _convert(values: Mapping[str, str], kind: type[T], *, prefix: str) -> T:
    fields = {prefix + name.upper(): name for name in kind.__struct_fields__}
    for key in values:
        if key not in fields:
            raise ConfigError(f"unknown setting {key}{_nearest(key, fields)}")
    # An empty variable is one that is not set: as an address of the HTTP API it would mean all that the machine has.
    settings = {fields[key]: value for key, value in values.items() if value or fields[key] in EMPTY_MEANS_NONE}
    try:
        read = msgspec.convert(settings, kind, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise ConfigError(f"a setting under {prefix}* does not fit: {error}") from error
    for field in structs.fields(kind):
        value = getattr(read, field.name)
        if field.name in settings and isinstance(value, int | float):
            usual = field.default if isinstance(field.default, int | float) else 0
            least, may_be_0 = min(0, usual), usual <= 0 or isinstance(value, bool) or field.name in ZERO_COUNTS
            if not least <= value < inf or (value == 0 and not may_be_0):
                key, bound = prefix + field.name.upper(), f"from {least} on" if may_be_0 else "above 0"
                raise ConfigError(f"{key} is {settings[field.name]}; it must be a number {bound}")
    return read


def _nearest(key: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(key, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
