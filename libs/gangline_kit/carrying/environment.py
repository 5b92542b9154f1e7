"""The environment a task runs in: what the machine gives, what the user set, and what the scheduler owns."""

import json
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from gangline_core.door.array_record import array_size
from gangline_core.ids import NodeId, TaskId
from gangline_core.job import Task
from gangline_core.room.company import START_PERCENT
from gangline_core.room.remote import PORT_FIRST, server_of
from gangline_core.spec import GPU_MILLI, ResizeKind, Role
from gangline_kit.carrying.known import Order
from gangline_wire.limits import most

INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CUDA_MPS_PIPE_DIRECTORY",
)
"""What a task gets of the agent's own environment, unless the user sets it; nothing else leaks from the agent."""

OWNED_PREFIXES = ("GANGLINE_", "PET_", "NVIDIA_", "CUDA_MPS_", "RCUDA_")
OWNED = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "NODE_RANK",
        "JAX_COORDINATOR_ADDRESS",
        "JAX_NUM_PROCESSES",
        "JAX_PROCESS_ID",
        "TF_CONFIG",
    }
)
"""Names only the scheduler sets: a user's value for one of these would point the gang at the wrong place or GPU."""

REFUSED = frozenset({"LD_PRELOAD", "LD_AUDIT"})
"""Names nobody sets: they would run foreign code in every process that the task starts."""

TORCHRUN_RESTARTS = 3
"""How often torchrun starts its workers again by itself, at least: once for every member that is lost."""

TORCHRUN_LAST_CALL_S = 10
"""How long members that met wait for further ones: they were all told at once, so torchrun's own 30 s are lost time."""

TENSORFLOW_ROLES = frozenset({"chief", "master", "worker", "ps", "evaluator"})
"""TF_CONFIG is made for gangs whose roles are all called so."""
TENSORFLOW_PORTS = range(20_000, 29_500)
"""Every member listens on one of these, below the ports on which gangs meet."""
TENSORFLOW_STRIDE = 61
"""So far apart are the ports of a job and the next: 155 jobs in a row of up to 61 members share none on any machine."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Place(Struct, frozen=True):
    """What the machine adds: where the task's files are and how its GPUs are called here."""

    folder: str
    notice_file: str
    devices: tuple[str, ...]
    """Index by which the driver knows each of the task's GPUs, in the task's order."""
    has_mps: bool = False
    """NVIDIA's MPS daemon serves the GPUs, so that shares of their time can be enforced at a task's start."""
    desk: dict[str, str] = {}
    """Where the task asks and reports while it runs (names beginning with GANGLINE_TASK_); empty where nobody does."""
    hosts: dict[TaskId, str] = {}
    """How members of the gang are reached where that is not by their nodes' addresses: pods have names of their own."""
    is_apart: bool = False
    """The task sees nothing of members on the same node, as a pod does: it is a machine of its own to its program."""


class Environment(Struct, frozen=True):
    """The whole environment, and a note for every value of the user's that was left out."""

    values: dict[str, str]
    notes: tuple[str, ...]


def build(order: Order, role: Role, place: Place, inherited: Mapping[str, str]) -> Environment:
    """The environment of one task; `role` is the task's with its secrets back, `inherited` the agent's environment."""
    values = {name: inherited[name] for name in INHERITED if name in inherited}
    values["PYTHONUNBUFFERED"] = "1"
    notes: list[str] = []
    for name, value in role.environment.items():
        fault = _fault(name)
        if fault:
            notes.append(f"{name} of the job's environment was left out: {fault}")
        else:
            values[name] = value
    values |= _devices(place) | _mps(order, place) | _gang(order, role, place) | _own(order, role, place) | place.desk
    return Environment(values=values, notes=tuple(notes))


def _fault(name: str) -> str:
    if not _NAME.fullmatch(name):
        return "it is no name of a variable"
    if name in REFUSED:
        return "it would load code into every process of the task"
    if name in OWNED or name.startswith(OWNED_PREFIXES):
        return "the scheduler sets it"
    return ""


def _devices(place: Place) -> dict[str, str]:
    """Which GPUs programs see; an empty list hides all. A frame of mind, not a fence: see the README.

    The numbers are the driver's, which go by the bus; CUDA of itself counts the fastest card first.
    """
    indexes = ",".join(place.devices)
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": indexes or "void"}
    return {"CUDA_VISIBLE_DEVICES": indexes, **order}


def _mps(order: Order, place: Place) -> dict[str, str]:
    """What MPS enforces for a part of a GPU: so many of its threads, so much memory; fixed at the program's start."""
    shares = [share for share in order.task.gpus if not share.slots]
    is_part = any(share.milli < GPU_MILLI for share in shares)
    if not place.has_mps or not (is_part or (shares and role_of(order).resources.gpu_memory_most_mib)):
        return {}
    memory = ",".join(f"{k}={share.memory_mib}M" for k, share in enumerate(shares))
    values = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": memory}
    if is_part:
        is_beside = not any(share.milli for share in shares)
        known = order.job.limit_percent
        percent = (known if known > 0 else START_PERCENT) if is_beside else max(1, shares[0].milli // 10)
        values["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(percent)
    return values


def enforced_by(task: Task, place: Place, *, has_bound: bool = False) -> str:
    """What holds the task to its part of its GPUs, said to it as it is: the card, MPS, or only the books.

    A whole GPU is a part, too, where the job `has_bound` how much of its memory it uses.
    """
    if not task.gpus:
        return "nothing"
    if all(share.slots for share in task.gpus):
        return "mig"
    if all(share.milli == GPU_MILLI for share in task.gpus) and not has_bound:
        return "whole"
    return "mps" if place.has_mps else "accounting"


def _gang(order: Order, role: Role, place: Place) -> dict[str, str]:
    """How the members of the gang find each other, in the words of the frameworks."""
    if role.serves:
        return {"GANGLINE_REMOTE_PORT": str(remote_port(order.task))}
    task, gang = order.task, _peers(order)
    host, port = _endpoint(task, gang, place)
    seats: list[str] = [member.id for member in gang] if place.is_apart else list(nodes_of(gang))
    seat = task.id if place.is_apart else task.node
    here = [task.rank] if place.is_apart else [member.rank for member in gang if member.node == task.node]
    size = str(world_size(order))
    values = {
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "RANK": str(task.rank),
        "WORLD_SIZE": size,
        "LOCAL_RANK": str(here.index(task.rank)),
        "LOCAL_WORLD_SIZE": str(len(here)),
        "GROUP_RANK": str(seats.index(seat)),
        "NODE_RANK": str(seats.index(seat)),
        "JAX_COORDINATOR_ADDRESS": f"{host}:{port}",
        "JAX_NUM_PROCESSES": size,
        "JAX_PROCESS_ID": str(task.rank),
    }
    values |= _torchrun(order, role, host=host, port=port) | _remote(order, role, place)
    if len(gang) > 1 and {member.role for member in gang} <= TENSORFLOW_ROLES:
        config = _tensorflow(order, place)
        # No program can be started with a longer one, so that gangs of very many members would not run at all.
        values |= {"TF_CONFIG": config} if len(config) <= most("env_bytes") else {}
    return values


def _endpoint(task: Task, gang: Sequence[Task], place: Place) -> tuple[str, str]:
    """Host and port at which the gang's lowest rank listens."""
    host, _, port = task.endpoint.rpartition(":")
    return place.hosts.get(gang[0].id, host), port


def port_kept_by(order: Order) -> int:
    """The port on which this task listens for its gang, or for its own processes on several GPUs; 0 for none."""
    gang = _peers(order)
    meets = len(gang) > 1 or len(order.task.gpus) > 1
    return int(order.task.endpoint.rpartition(":")[2] or 0) if meets and order.task.id == gang[0].id else 0


def _peers(order: Order) -> tuple[Task, ...]:
    """The gang without those that only serve GPUs over the network; all of it for one of these."""
    serving = {role.name for role in order.job.spec.roles if role.serves}
    return order.gang if order.task.role in serving else tuple(m for m in order.gang if m.role not in serving)


def _remote(order: Order, role: Role, place: Place) -> dict[str, str]:
    """Where the task's GPUs are when they are on other machines, in rCUDA's words and plainly."""
    server = server_of(order.job.spec, role.name)
    if server is None:
        return {}
    each = server.count // max(1, role.count)
    servers = sorted((m for m in order.gang if m.role == server.name), key=lambda member: member.index)
    mine = servers[order.task.index * each : (order.task.index + 1) * each]
    where = [f"{place.hosts.get(m.id) or order.addresses[m.node]}:{remote_port(m)}" for m in mine]
    devices = {f"RCUDA_DEVICE_{k}": f"{place.replace(':', '@')}:0" for k, place in enumerate(where)}
    return {"RCUDA_DEVICE_COUNT": str(len(where)), "GANGLINE_REMOTE_GPUS": ",".join(where), **devices}


def remote_port(member: Task) -> int:
    """Where the server of a GPU listens: every GPU of a machine has a port of its own."""
    return PORT_FIRST + (member.gpus[0].index if member.gpus else 0)


def _torchrun(order: Order, role: Role, *, host: str, port: str) -> dict[str, str]:
    """torchrun started inside a task takes its arguments from PET_*: each task is one of its "nodes"."""
    task = order.task
    others = world_size(order) - order.job.sizes.get(role.name, 0)
    fixed = not role.is_elastic
    nodes = str(world_size(order)) if fixed else f"{role.min_count + others}:{role.max_count + others}"
    values = {
        "PET_NNODES": nodes,
        "PET_NPROC_PER_NODE": str(max(1, len(task.gpus))),
        "PET_NODE_RANK": str(task.rank),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": port,
        "PET_RDZV_ID": f"{task.job}-{task.attempt}",
    }
    if not fixed:
        values |= {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": f"{host}:{port}"}
    if not fixed and order.job.spec.elastic.kind == ResizeKind.TORCHRUN:
        # Without any, each torchrun gives up when a member is lost in the middle of an exchange.
        values["PET_MAX_RESTARTS"] = str(max(TORCHRUN_RESTARTS, order.job.spec.retries))
        values["PET_RDZV_CONF"] = f"last_call_timeout={TORCHRUN_LAST_CALL_S}"
    return values


def _tensorflow(order: Order, place: Place) -> str:
    """TF_CONFIG: every member listens on a port of its own on the node it runs on.

    The gang's meeting port is no place to count from: the next gang of that machine meets one further, and gangs that
    meet on other machines have members here, too.
    """
    task, cluster = order.task, dict[str, list[str]]()
    for member in order.gang:
        host = place.hosts.get(member.id) or order.addresses[member.node]
        cluster.setdefault(member.role, []).append(f"{host}:{tensorflow_port(member)}")
    return json.dumps({"cluster": cluster, "task": {"type": task.role, "index": task.index}}, separators=(",", ":"))


def tensorflow_port(member: Task) -> int:
    """Where a member listens for the others."""
    return TENSORFLOW_PORTS[(member.job * TENSORFLOW_STRIDE + member.rank) % len(TENSORFLOW_PORTS)]


def _own(order: Order, role: Role, place: Place) -> dict[str, str]:
    """Gangline's own names; the README lists them."""
    task, spec = order.task, order.job.spec
    nodes = nodes_of(order.gang)
    return _array(order) | {
        "GANGLINE_JOB_ID": str(task.job),
        "GANGLINE_JOB_NAME": spec.name,
        "GANGLINE_JOB_ATTEMPT": str(task.attempt),
        "GANGLINE_JOB_USER": task.user,
        "GANGLINE_JOB_SIZE": str(world_size(order)),
        "GANGLINE_JOB_STOP_SIGNAL": spec.stop_signal,
        "GANGLINE_JOB_GRACE_S": str(spec.grace_s),
        "GANGLINE_JOB_TIME_LIMIT_S": str(spec.time_limit_s),
        "GANGLINE_GROUP": task.group,
        "GANGLINE_POOL": spec.pool,
        "GANGLINE_ROLE_NAME": task.role,
        "GANGLINE_ROLE_INDEX": str(task.index),
        "GANGLINE_ROLE_SIZE": str(order.job.sizes.get(task.role, 1)),
        "GANGLINE_ROLE_SIZE_MIN": str(role.min_count),
        "GANGLINE_ROLE_SIZE_MAX": str(role.max_count),
        "GANGLINE_TASK_ID": task.id,
        "GANGLINE_TASK_RANK": str(task.rank),
        "GANGLINE_TASK_ENDPOINT": task.endpoint,
        "GANGLINE_TASK_GPUS": ",".join(str(share.index) for share in task.gpus),
        "GANGLINE_TASK_GPU_MODEL": task.gpu_model,
        "GANGLINE_TASK_GPU_LIMITS": enforced_by(task, place, has_bound=role.resources.gpu_memory_most_mib > 0),
        "GANGLINE_TASK_GPU_MILLI": str(task.gpu_milli),
        "GANGLINE_TASK_GPU_MEMORY_MIB": str(sum(share.memory_mib for share in task.gpus)),
        "GANGLINE_TASK_CPU_MILLI": str(task.cpu_milli),
        "GANGLINE_TASK_MEMORY_MIB": str(task.memory_mib),
        "GANGLINE_TASK_FOLDER": place.folder,
        "GANGLINE_TASK_NOTICE_FILE": place.notice_file,
        "GANGLINE_NODE": task.node,
        "GANGLINE_NODE_RANK": str(nodes.index(task.node)),
        "GANGLINE_NODES": ",".join(nodes),
        "GANGLINE_NODE_ADDRESSES": ",".join(order.addresses[node] for node in nodes),
    }


def _array(order: Order) -> dict[str, str]:
    """Which element of an array this is; nothing for a job of its own."""
    job, array = order.job, order.job.spec.array
    if not job.array or array is None:
        return {}
    return {
        "GANGLINE_ARRAY_JOB_ID": str(job.array),
        "GANGLINE_ARRAY_INDEX": str(job.array_index),
        "GANGLINE_ARRAY_SIZE": str(array_size(array)),
        "GANGLINE_ARRAY_FIRST": str(array.ranges[0][0]),
        "GANGLINE_ARRAY_LAST": str(array.ranges[-1][1]),
        "GANGLINE_ARRAY_STEP": str(array.ranges[0][2]),
    }


def nodes_of(gang: Sequence[Task]) -> list[NodeId]:
    """The gang's nodes, each once, in the order of its lowest rank."""
    return list(dict.fromkeys(member.node for member in gang))


def world_size(order: Order) -> int:
    """Members of the gang as placed, servers of remote GPUs left out; one that is over already still counts."""
    serving = {role.name for role in order.job.spec.roles if role.serves}
    size = sum(count for name, count in order.job.sizes.items() if name not in serving)
    return size if order.task.role in serving else max(size, order.task.rank + 1)


def role_of(order: Order) -> Role:
    """The role of the order's task."""
    return next(role for role in order.job.spec.roles if role.name == order.task.role)
