"""The job file as JSON Schema (2020-12), for the API's documentation and for editors; tested against the parser."""

from typing import Any

from gangline_core.room.mig import profiles
from gangline_core.spec import ResizeKind, ServiceClass
from gangline_wire.jobfile_examples import EXAMPLE, ROLES_EXAMPLE
from gangline_wire.jobfile_schema_order import ORDER_PROPERTIES
from gangline_wire.jobfile_terms import FOREVER, SIGNALS
from gangline_wire.limits import most
from gangline_wire.names import DOTTED, ENV_KEY, TOKEN

Schema = dict[str, Any]


def _text(limit: str, meaning: str, **more: Any) -> Schema:
    return {"type": "string", "maxLength": most(limit), "description": meaning, **more}


def _token(meaning: str, *examples: str) -> Schema:
    pattern = f"^{TOKEN.pattern}$"
    return _text(
        "token_chars", meaning, pattern=pattern, minLength=1, **({"examples": list(examples)} if examples else {})
    )


def _whole(limit: str, meaning: str, *, least: int = 0) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most(limit), "description": meaning}


def _count(limit: str, meaning: str, *examples: Any) -> Schema:
    text = {"type": "string", "pattern": r"^([0-9]{1,19}(\.[0-9]{1,3})?|[0-9]{1,19}m)$"}
    number = {"type": "number", "minimum": 0, "maximum": most(limit)}
    return {"anyOf": [number, text], "description": meaning, "examples": list(examples)}


def _memory(meaning: str, *examples: str) -> Schema:
    pattern = r"^[0-9]{1,19}(\.[0-9]{1,6})?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)$"
    text = {"type": "string", "pattern": pattern}
    return {"anyOf": [text, {"const": 0}], "description": meaning, "examples": list(examples)}


def _duration(meaning: str, *examples: Any, limit: str = "duration_s", least: int = 0) -> Schema:
    part = r"[0-9]{1,12}(\.[0-9]{1,6})?"
    pattern = rf"^([0-9]{{1,19}}|(?=.)({part}d)?({part}h)?({part}m)?({part}s)?)$"
    text = {"type": "string", "pattern": pattern}
    return {"anyOf": [_whole(limit, "seconds", least=least), text], "description": meaning, "examples": list(examples)}


def _list(limit: str, items: Schema, meaning: str, **more: Any) -> Schema:
    return {"type": "array", "items": items, "maxItems": most(limit), "description": meaning, **more}


def _map(limit: str, values: Schema, meaning: str, **more: Any) -> Schema:
    return {
        "type": "object",
        "additionalProperties": values,
        "maxProperties": most(limit),
        "description": meaning,
        **more,
    }


_ENV = _map(
    "env_entries",
    {"type": "string"},
    "Environment variables. Values whose name looks secret (TOKEN, SECRET, PASSWORD, KEY, ...) are sealed.",
    propertyNames={"pattern": f"^{ENV_KEY.pattern}$", "maxLength": most("env_key_chars")},
    examples=[{"MODE": "train", "OMP_NUM_THREADS": "8"}],
)


def _tolerations(meaning: str) -> Schema:
    one = {
        "type": "object",
        "properties": {"key": {"type": "string"}, "value": {"type": "string"}},
        "required": ["key"],
        "additionalProperties": False,
    }
    return _list("tolerations", {"anyOf": [{"type": "string"}, one]}, meaning)


ROLE_PROPERTIES: dict[str, Schema] = {
    "tasks": _whole("tasks", "Equal tasks wanted at start; all of them start together.", least=1),
    "count": _whole("tasks", "The same as tasks.", least=1),
    "min": _whole("tasks", "Least number of tasks the job can run with; 0 for a role it can do without."),
    "max": _whole("tasks", "Largest number of tasks; more than min makes the role elastic.", least=1),
    "preferred": _whole("tasks", "The same as tasks.", least=1),
    "sizes": {
        "anyOf": [
            _list("sizes", _whole("tasks", "A size.", least=1), "All of them, ascending."),
            {"const": "powers_of_two"},
            {
                "type": "object",
                "properties": {"multiples_of": _whole("tasks", "The step.", least=1)},
                "required": ["multiples_of"],
                "additionalProperties": False,
            },
        ],
        "description": "Allowed numbers of tasks between min and max: a list, powers_of_two, or multiples_of a step.",
        "examples": [[1, 2, 4, 8], "powers_of_two", {"multiples_of": 3}],
    },
    "gpus": _count("gpus", "GPUs of each task: whole ones, or a share below one.", 2, 0.5, "500m"),
    "gpu_memory": _memory("Memory on each GPU: the least it must have, or the share taken.", "16Gi"),
    "beside": {
        "type": "boolean",
        "description": "True takes no GPU time of its own: it works in what others leave. Needs gpu_memory.",
    },
    "gpu_memory_most": _memory("Of each whole GPU no more memory than this is used; all of it if left out.", "30Gi"),
    "gpu_models": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            _list("gpu_models", {"type": "string", "minLength": 1}, "Models, best first."),
        ],
        "description": "GPU models that will do, best first; any if left out.",
        "examples": [["H100", "A100"]],
    },
    "exclude_models": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            _list("gpu_models", {"type": "string", "minLength": 1}, "Models."),
        ],
        "description": "GPU models that will not do.",
        "examples": [["T4"]],
    },
    "mig": {
        "enum": profiles(),
        "description": "One slice of a card that is cut by MIG; gpus and gpu_memory are then left out.",
    },
    "near_nic": {
        "type": "boolean",
        "description": "True takes only GPUs on a PCIe switch that has a network card.",
    },
    "remote": {
        "type": "object",
        "properties": {
            "gpus": _whole("gpus", "GPUs of other machines that each task uses.", least=1),
            "gpu_models": _list("gpu_models", {"type": "string", "minLength": 1}, "Models that will do."),
            "bandwidth": {
                "type": "string",
                "pattern": "^[0-9]{1,7}(Mbps|Gbps)$",
                "description": "Part of the network reserved for each task. Left out: 10Gbps.",
            },
            "server": _list("command_args", {"type": "string"}, "What serves a GPU; {port} is filled in."),
        },
        "required": ["gpus"],
        "additionalProperties": False,
        "description": "GPUs over the network. See docs/elastic.md.",
    },
    "cpus": _count("cpus", "CPUs of each task. Left out: 1 for a task without GPUs and devices, else none.", 4, "500m"),
    "memory": _memory("Memory of each task.", "64Gi"),
    "devices": _map("devices", _whole("device_count", "How many.", least=1), "Other devices of each task, by name."),
    "command": {
        "anyOf": [_list("command_args", {"type": "string"}, "Program and arguments."), {"type": "string"}],
        "description": "What each task runs: a list, which no shell reads, or with shell: true one text for a shell.",
        "examples": [["python", "train.py"]],
    },
    "shell": {"type": "boolean", "description": "True runs a command given as one text with /bin/sh -c."},
    "env": _ENV,
    "image": _text("image_chars", "Container image, where the platform runs containers."),
}

_LABELS = {"type": "string", "maxLength": most("label_chars")}

JOB_PROPERTIES: dict[str, Schema] = {
    "name": _text(
        "name_chars", "A name for people; kept as written, in Unicode normal form NFC.", examples=["resnet-50"]
    ),
    "group": _text(
        "group_chars", "Path in the group tree. Left out: the token's only group.", examples=["research/vision"]
    ),
    "user": _text("token_chars", "For whom, where the token may say so.", pattern=f"^{DOTTED.pattern}$", minLength=1),
    "pool": _token("The pool of machines.", "default"),
    "level": _token("The queue level inside the pool.", "high", "normal", "low"),
    "priority": {
        "type": "integer",
        "minimum": -most("priority"),
        "maximum": most("priority"),
        "description": "More goes first, as far as the pool's policy says so.",
    },
    "service_class": {"enum": [kind.value for kind in ServiceClass], "description": "How safe it is from preemption."},
    "labels": _map("labels", _LABELS, "Marks for people and programs."),
    "attributes": _map(
        "attributes",
        {"type": ["string", "number", "boolean"]},
        "What a policy's formula may use.",
        propertyNames={"pattern": f"^{ENV_KEY.pattern}$"},
        examples=[{"kind": "training", "parameters": 7000000000}],
    ),
    "workdir": _text(
        "attribute_chars",
        "Folder in which its programs start, as a whole path; `gangline submit` takes one from where you stand, too. "
        "Left out: an empty folder for each task. Containers start where their image says.",
        pattern="^/",
        examples=["/data/resnet"],
    ),
    "elastic": {
        "type": "object",
        "properties": {
            "kind": {
                "enum": [kind.value for kind in ResizeKind],
                "description": "What a change of size is: see docs/elastic.md. tasks if left out.",
            },
            "notice": _duration("A leaving member is told so long before its stop signal.", "30s"),
            "confirm": _duration("The gang confirms its new size within this time, or starts anew.", "5m"),
            "start": _duration("New members that did not start within this time are given back.", "5m"),
            "cooldown": _duration("No growth for so long after a change.", "10m"),
            "cost": _duration("What one change costs in work time; measured if left out.", "45s"),
        },
        "additionalProperties": False,
        "description": "How an elastic job is resized.",
    },
    "pause": {
        "type": "object",
        "properties": {
            "gpu_memory": _memory("What stays in the memory of each of its GPUs; nothing if left out.", "10Gi"),
            "notice": _duration("It is told so long before.", "10s"),
        },
        "additionalProperties": False,
        "description": "That the job may be paused where it is, though it has GPUs. See docs/elastic.md.",
    },
    "topology": {
        "type": "object",
        "properties": {
            "required": _token("Level inside which all tasks must be."),
            "preferred": _token("Should be."),
            "slices": {
                "type": "object",
                "properties": {
                    "tasks": _whole("tasks", "So many tasks with neighbouring ranks", least=1),
                    "level": _token("stand inside one domain of this level."),
                },
                "required": ["tasks", "level"],
                "additionalProperties": False,
                "description": "Tasks of each role in groups that stay together; the gang may still be larger.",
            },
            "spread": {
                "anyOf": [
                    _token("The same with most: 1."),
                    {
                        "type": "object",
                        "properties": {
                            "level": _token("Level over which tasks are spread, from node upwards."),
                            "most": _whole("tasks", "Most tasks in one of its domains; 1 if left out.", least=1),
                        },
                        "required": ["level"],
                        "additionalProperties": False,
                    },
                ],
                "description": "Not too many tasks in one place.",
            },
        },
        "additionalProperties": False,
        "description": 'How close together: levels are "nvlink", "switch", "socket", "node", and the pool\'s own.',
        "examples": [
            {"required": "rack", "preferred": "node"},
            {"required": "block", "slices": {"tasks": 4, "level": "rack"}, "spread": {"level": "node", "most": 2}},
        ],
    },
    "node_selector": _map("labels", _LABELS, "Node labels that must match."),
    "exclude_nodes": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            _list("exclude_nodes", {"type": "string", "minLength": 1}, "Nodes."),
        ],
        "description": "Nodes by name on which no task may be.",
        "examples": [["n17"]],
    },
    "same_model": {
        "type": "boolean",
        "description": "True has all GPUs of the job of one model; else they only are where that is possible. "
        "Those of one task always are.",
    },
    "pinned_cell": _token("A named cell of the pool that the job's group has; the job goes there and nowhere else."),
    "lazy_preemption": {
        "type": "boolean",
        "description": "True has the job run on as an opportunistic one when its group needs its cells elsewhere.",
    },
    "tolerations": _tolerations('Taints the job accepts: "key" or "key=value".'),
    "time_limit": _duration("The job is stopped after this. Left out: no limit.", "2h", 5400, "1h30m", least=1),
    "repair": _duration(
        "A member that is lost (its node, GPU or process) is placed again alone within this time while the others "
        "run on; then the job goes on at a smaller size that it allows, or starts anew. Left out: it starts anew at "
        "once. For torchrun and signal jobs rank 0 cannot be replaced.",
        "10m",
        least=1,
    ),
    "start_limit": _duration(
        "A gang that was given room but has not started wholly by then gives it back, by its retries. Time in the "
        "queue does not count. Left out: the pool's.",
        "10m",
        least=1,
    ),
    "estimate": _duration(
        "How long you think it runs in all. It lets the job into gaps before others' dates, and says for whom one that "
        "checkpoints makes way. It stops nothing.",
        "90m",
        least=1,
    ),
    "protected": {
        "anyOf": [*_duration("", least=0)["anyOf"], {"const": FOREVER}],
        "description": "It is never preempted in the first time of a run, or in all of it.",
        "examples": ["10m", FOREVER],
    },
    "protected_below": {
        "type": "integer",
        "minimum": -most("priority"),
        "maximum": most("priority"),
        "description": "Protected time holds only against jobs of a lower priority than this, level included.",
    },
    "grace": _duration("Between the stop signal and the kill.", "30s", limit="grace_s"),
    "stop_signal": {"enum": list(SIGNALS), "description": "How tasks are asked to stop."},
    "retries": _whole("retries", "Further attempts after a failure of its own."),
    "retry_from": _whole(
        "exit_code",
        "Only failures with an exit code from this one on are tried again; 128 means those that a signal ended, so "
        "that what the program itself calls a failure is final.",
    ),
    "preemptible": {"type": "boolean", "description": "False keeps it from being preempted by priority."},
    "preempts": {
        "type": "boolean",
        "description": "False has nobody preempted or made smaller for it: it goes before others in the queue only.",
    },
    "checkpoints": {
        "type": "boolean",
        "description": "True says that it can be stopped at any time: told to stop it saves its work within its grace, "
        "and goes on from there when it starts again. It may then take the room of such jobs that had their share (16 "
        "GPU-hours, if the pool says nothing else) and need more still than it does, and once it had its own makes way "
        "for those that had not, or need less still by what they say (estimate). See docs/orderings.md.",
    },
    **ORDER_PROPERTIES,
    "hold": {"type": "boolean", "description": "True admits it held, until it is released."},
    "secrets": {
        "anyOf": [
            _map("secrets", {"type": "string"}, "Values by environment name."),
            _list("secrets", {"type": "string"}, "Names in env."),
        ],
        "description": "Environment variables whose values are sealed, whatever they are called.",
    },
}

ROLE_PLACE: dict[str, Schema] = {
    "node_selector": _map("labels", _LABELS, "Node labels that must match for this role, instead of the job's."),
    "tolerations": _tolerations("Taints that this role accepts, instead of those of the job."),
}
"""Where the tasks of one entry of `roles` may be."""
_NAMED_ROLE: Schema = {
    "type": "object",
    "properties": {"name": _token("The role's name.", "worker"), **ROLE_PROPERTIES, **ROLE_PLACE},
    "required": ["name"],
    "additionalProperties": False,
}

JOB_FILE: Schema = {
    "title": "JobFile",
    "description": "One job: either `roles`, or the fields of its single role at the top.",
    "type": "object",
    "properties": {
        **JOB_PROPERTIES,
        **ROLE_PROPERTIES,
        "roles": {
            **_list("roles", _NAMED_ROLE, "Sets of equal tasks; all roles start together or none does."),
            "minItems": 1,
        },
    },
    "additionalProperties": False,
    "examples": [EXAMPLE, ROLES_EXAMPLE],
}
