"""How a job file asks for GPUs over the network: `remote`, which becomes a role of servers beside the role itself."""

import re
from typing import Any

from gangline_core.room.remote import NIC, REMOTE_GPU
from gangline_core.spec import Resources, Role
from gangline_wire.fields import each, listed, mapping, read_fields, text, whole
from gangline_wire.problem import FieldError, FieldErrorsError, WrongValueError

SERVER = ("rCUDAd", "-i", "-p", "{port}")
"""rCUDA's server in the foreground on its port; `{port}` is filled in where it starts."""
MBPS_DEFAULT = 10_000
MBPS_MOST = 10_000_000
SUFFIX = "-gpus"
_BANDWIDTH = re.compile(r"([0-9]{1,7})(Mbps|Gbps)", re.ASCII)


def read_bandwidth(value: object) -> int:
    """Mbit/s from "10Gbps" or "500Mbps".

    Raises:
        WrongValueError: no such amount.
    """
    found = _BANDWIDTH.fullmatch(text(value)) if isinstance(value, str) else None
    if found is None:
        raise WrongValueError('must have a unit, such as "10Gbps" or "500Mbps"')
    mbps = int(found[1]) * (1000 if found[2] == "Gbps" else 1)
    if not 1 <= mbps <= MBPS_MOST:
        raise WrongValueError(f"must be from 1Mbps to {MBPS_MOST // 1000}Gbps")
    return mbps


def read_remote(value: object) -> dict[str, Any]:
    """GPUs per task, their models, the bandwidth of each task, and what serves a GPU.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    errors: list[FieldError] = []
    kept = read_fields(mapping(value), REMOTE_FIELDS, errors)
    if not errors and "gpus" not in kept:
        errors.append(FieldError(path="gpus", message="is missing; say how many GPUs each task uses over the network"))
    if errors:
        raise FieldErrorsError(errors)
    return kept


def with_servers(role: Role, remote: dict[str, Any]) -> tuple[Role, Role]:
    """The role with its part of the network, and the role that serves its GPUs: one task per GPU."""
    mbps, gpus = remote.get("mbps", MBPS_DEFAULT), remote["gpus"]
    client = Role(
        name=role.name,
        count=role.count,
        min_count=role.min_count,
        max_count=role.max_count,
        resources=_with_device(role.resources, NIC, mbps),
        command=role.command,
        environment=role.environment,
        image=role.image,
        sizes=role.sizes,
        node_selector=role.node_selector,
        tolerations=role.tolerations,
    )
    server = Role(
        name=role.name + SUFFIX,
        count=role.count * gpus,
        min_count=role.count * gpus,
        max_count=role.count * gpus,
        resources=Resources(
            gpu_milli=1000,
            gpu_models=remote.get("models", ()),
            devices={REMOTE_GPU: 1, NIC: max(1, mbps // gpus)},
        ),
        command=remote.get("server", SERVER),
        serves=role.name,
    )
    return client, server


def _with_device(resources: Resources, name: str, amount: int) -> Resources:
    return Resources(
        cpu_milli=resources.cpu_milli,
        memory_mib=resources.memory_mib,
        devices={**resources.devices, name: amount},
    )


def _models(value: object) -> tuple[str, ...]:
    return each(listed(value, "gpu_models"), text)


def _server(value: object) -> tuple[str, ...]:
    return each(listed(value, "command_args"), text)


REMOTE_FIELDS = {
    "gpus": ("gpus", whole("gpus", least=1)),
    "gpu_models": ("models", _models),
    "bandwidth": ("mbps", read_bandwidth),
    "server": ("server", _server),
}
