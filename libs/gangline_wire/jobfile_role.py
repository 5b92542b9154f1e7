"""How one role of a job file is read: how many tasks, what each needs, what it runs."""

from collections.abc import Mapping
from typing import Any

from gangline_core.room.mig import compute_milli
from gangline_core.spec import GPU_MILLI, Resources, Role
from gangline_wire.fields import each, entries, flag, listed, note, read_fields, text, visible_text, whole
from gangline_wire.jobfile_elastic import SizeRule, read_sizes
from gangline_wire.jobfile_place import read_labels, read_mig, read_tolerations
from gangline_wire.jobfile_remote import read_remote, with_servers
from gangline_wire.limits import most
from gangline_wire.names import env_key, token
from gangline_wire.problem import FieldError, FieldErrorsError, WrongValueError
from gangline_wire.quantity import kind_name, read_mebibytes, read_milli, show_milli
from gangline_wire.seal import PLACEHOLDER

SHELL = "/bin/sh"
CPU_MILLI_DEFAULT = 1000
"""What a task takes that asks for neither CPUs nor a device: else any number of tasks would fit a machine at once."""

_GPUS_MILLI = most("gpus") * GPU_MILLI
_CPUS_MILLI = most("cpus") * 1000
_MEMORY_MIB = most("memory_mib")
_GPU_MEMORY_MIB = most("gpu_memory_mib")
_ARG_BYTES = most("arg_bytes")
_ENV_BYTES = most("env_bytes")
_ENV_KEY_CHARS = most("env_key_chars")
_TOKEN_CHARS = most("token_chars")


def read_gpus(value: object) -> int:
    """GPU thousandths of one task: whole GPUs, or a share below one.

    Raises:
        WrongValueError: no such amount.
    """
    milli = read_milli(value)
    if milli > _GPUS_MILLI:
        raise WrongValueError(f"is more than any task may ask for ({most('gpus')} GPUs)")
    if milli > GPU_MILLI and milli % GPU_MILLI:
        raise WrongValueError(f"is {show_milli(milli)}; a task takes whole GPUs, or a share below one")
    return milli


def read_cpus(value: object) -> int:
    """CPU thousandths of one task.

    Raises:
        WrongValueError: no such amount.
    """
    milli = read_milli(value)
    if milli > _CPUS_MILLI:
        raise WrongValueError(f"is more than any task may ask for ({most('cpus')} CPUs)")
    return milli


def read_memory(value: object) -> int:
    """MiB of one task.

    Raises:
        WrongValueError: no such amount.
    """
    mebibytes = read_mebibytes(value)
    if mebibytes > _MEMORY_MIB:
        raise WrongValueError("is more than any task may ask for (1Pi)")
    return mebibytes


def read_gpu_memory(value: object) -> int:
    """MiB on one GPU.

    Raises:
        WrongValueError: no such amount.
    """
    mebibytes = read_mebibytes(value)
    if mebibytes > _GPU_MEMORY_MIB:
        raise WrongValueError("is more than any GPU has (16Ti)")
    return mebibytes


def read_gpu_models(value: object) -> tuple[str, ...]:
    """Acceptable models, best first; one may stand alone.

    Raises:
        WrongValueError, FieldErrorsError: no such list.
    """
    items: list[object] = [value] if isinstance(value, str) else listed(value, "gpu_models")
    return each(items, _model)


def read_devices(value: object) -> dict[str, int]:
    """Other devices by name.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    return entries(value, "devices", visible_text("token_chars"), whole("device_count", least=1))


def read_command(value: object) -> tuple[str, ...] | str:
    """The arguments, or one text that `shell: true` allows.

    Raises:
        WrongValueError, FieldErrorsError: neither.
    """
    if isinstance(value, str):
        return _argument(value)
    if not isinstance(value, list | tuple):
        raise WrongValueError(f'must be a list such as ["python", "train.py"], not {kind_name(value)}')
    args = each(listed(value, "command_args"), _argument)
    if args and not args[0]:
        raise WrongValueError("must begin with the program to run; its first argument is empty")
    return args


def read_env(value: object) -> dict[str, str]:
    """Environment variables.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    return entries(value, "env_entries", read_env_key, read_env_value)


def read_env_key(value: object) -> str:
    """Name of an environment variable.

    Raises:
        WrongValueError: not one.
    """
    return env_key(text(value), _ENV_KEY_CHARS)


def read_env_value(value: object) -> str:
    """Value of an environment variable.

    Raises:
        WrongValueError: not one.
    """
    return _plain(value, _ENV_BYTES)


def read_token(value: object) -> str:
    """A safe token, such as a role's name.

    Raises:
        WrongValueError: not one.
    """
    return token(text(value), _TOKEN_CHARS)


def read_image(value: object) -> str:
    """An image reference such as "host:5000/x:1".

    Raises:
        WrongValueError: with spaces, too long, or as a flag begins.
    """
    image: str = visible_text("image_chars")(value)
    if " " in image:
        raise WrongValueError("must not contain spaces")
    if image.startswith("-"):
        raise WrongValueError('must not begin with "-"')
    return image


ROLE_FIELDS = {
    "tasks": ("count", whole("tasks", least=1)),
    "count": ("count", whole("tasks", least=1)),
    "preferred": ("count", whole("tasks", least=1)),
    "min": ("min_count", whole("tasks")),
    "max": ("max_count", whole("tasks", least=1)),
    "sizes": ("sizes", read_sizes),
    "gpus": ("gpu_milli", read_gpus),
    "gpu_memory": ("gpu_memory_mib", read_gpu_memory),
    "beside": ("beside", flag),
    "gpu_memory_most": ("gpu_memory_most_mib", read_gpu_memory),
    "gpu_models": ("gpu_models", read_gpu_models),
    "exclude_models": ("exclude_models", read_gpu_models),
    "mig": ("mig", read_mig),
    "near_nic": ("near_nic", flag),
    "remote": ("remote", read_remote),
    "cpus": ("cpu_milli", read_cpus),
    "memory": ("memory_mib", read_memory),
    "devices": ("devices", read_devices),
    "command": ("command", read_command),
    "shell": ("shell", flag),
    "env": ("environment", read_env),
    "image": ("image", read_image),
}
"""Fields of a role, which may also stand at the top of a file with a single role."""
NAMED_ROLE_FIELDS = {
    "name": ("name", read_token),
    **ROLE_FIELDS,
    "node_selector": ("node_selector", read_labels),
    "tolerations": ("tolerations", read_tolerations),
}
"""Fields of an entry of `roles`; where it may be stands in the job's own fields otherwise."""


def read_role(value: object) -> tuple[Role, ...]:
    """One entry of `roles`, and the role that serves its GPUs when these are on other machines.

    Raises:
        WrongValueError: no mapping.
        FieldErrorsError: some fields are wrong.
    """
    if not isinstance(value, dict):
        raise WrongValueError(f"must be a mapping, not {kind_name(value)}")
    errors: list[FieldError] = []
    kept = read_fields(value, NAMED_ROLE_FIELDS, errors)
    if "name" not in value:
        note(errors, FieldError(path="name", message='is missing; every entry of roles needs one, such as "worker"'))
    roles = build_roles(kept.pop("name", "worker"), kept, errors)
    if errors:
        raise FieldErrorsError(errors)
    return roles


def build_roles(name: str, kept: Mapping[str, Any], errors: list[FieldError]) -> tuple[Role, ...]:
    """The role of the kept fields, and the one that serves its GPUs when these are on other machines."""
    role = build_role(name, kept, errors)
    return with_servers(role, kept["remote"]) if "remote" in kept and not errors else (role,)


def build_role(name: str, kept: Mapping[str, Any], errors: list[FieldError]) -> Role:
    """The role of the kept fields; what does not fit together goes to `errors`."""
    count, least, largest, sizes = _counts(kept, errors)
    wants_other = any(kept.get(name) for name in ("gpu_milli", "gpu_memory_mib", "mig", "devices"))
    mig = kept.get("mig", "")
    resources = Resources(
        gpu_milli=compute_milli(mig) if mig else kept.get("gpu_milli", 0),
        gpu_memory_mib=kept.get("gpu_memory_mib", 0),
        gpu_models=kept.get("gpu_models", ()),
        cpu_milli=kept.get("cpu_milli", 0 if wants_other else CPU_MILLI_DEFAULT),
        memory_mib=kept.get("memory_mib", 0),
        devices=kept.get("devices", {}),
        exclude_models=kept.get("exclude_models", ()),
        near_nic=kept.get("near_nic", False),
        mig=mig,
        beside=kept.get("beside", False),
        gpu_memory_most_mib=kept.get("gpu_memory_most_mib", 0),
    )
    _check_gpus(kept, resources, errors)
    return Role(
        name=name,
        count=count,
        min_count=least,
        max_count=largest,
        resources=resources,
        command=_command(kept, errors),
        environment=kept.get("environment", {}),
        image=kept.get("image", ""),
        sizes=sizes,
        node_selector=kept.get("node_selector"),
        tolerations=kept.get("tolerations"),
    )


def _check_gpus(kept: Mapping[str, Any], resources: Resources, errors: list[FieldError]) -> None:
    """Fields about GPUs that do not go together."""
    if resources.mig:
        for field, name in (("gpus", "gpu_milli"), ("gpu_memory", "gpu_memory_mib")):
            if name in kept:
                message = "is said by the MIG profile already; give mig alone"
                note(errors, FieldError(path=field, message=message))
    if "remote" in kept and (resources.wants_gpu or _is_sized(kept)):
        message = "is for tasks of fixed number without GPUs of their own; leave out gpus, min, max and sizes"
        note(errors, FieldError(path="remote", message=message))
    if resources.beside and (resources.gpu_milli or not resources.gpu_memory_mib):
        message = "takes memory of a GPU and none of its time: give gpu_memory, without gpus or mig"
        note(errors, FieldError(path="beside", message=message))
    if resources.gpu_memory_most_mib and not resources.whole_gpus:
        message = "is about whole GPUs; a share says with gpu_memory what it takes"
        note(errors, FieldError(path="gpu_memory_most", message=message))
    elif 0 < resources.gpu_memory_most_mib < resources.gpu_memory_mib:
        note(errors, FieldError(path="gpu_memory_most", message="must not be less than gpu_memory"))
    if resources.wants_gpu:
        return
    message = "names GPU models, but no GPU is asked for; add gpus"
    for field in ("gpu_models", "exclude_models"):
        if getattr(resources, field):
            note(errors, FieldError(path=field, message=message))
    if resources.near_nic:
        note(errors, FieldError(path="near_nic", message="is about GPUs, but no GPU is asked for; add gpus"))


def _is_sized(kept: Mapping[str, Any]) -> bool:
    """True when the role says anything of other sizes than the one it wants."""
    return any(name in kept for name in ("min_count", "max_count", "sizes"))


def _counts(kept: Mapping[str, Any], errors: list[FieldError]) -> tuple[int, int, int, tuple[int, ...]]:
    """Wanted, least and largest number of tasks, and the allowed ones between; none are all."""
    sizes = kept.get("sizes", ())
    if isinstance(sizes, SizeRule):
        largest = kept.get("max_count") or kept.get("count") or 1
        sizes = sizes.sizes(kept.get("min_count") or 1, largest)
    least = kept.get("min_count") or (sizes[0] if sizes else None)
    largest = kept.get("max_count") or (sizes[-1] if sizes else None)
    count = kept.get("count") or least or 1
    least = least or (1 if largest is not None and "count" not in kept else count)
    largest = largest or max(count, least)
    if not least <= count <= largest:
        field, bounds = ("tasks", f"{least} to {largest}") if "count" in kept else ("min", f"at most {largest}")
        note(errors, FieldError(path=field, message=f"is {count}, outside of its bounds: {bounds} (min, max, sizes)"))
    elif sizes and (count not in sizes or least not in sizes or largest not in sizes):
        note(errors, FieldError(path="sizes", message="must contain tasks, min and max"))
    # A role that the job can do without may also have none at all, beside its sizes.
    return count, 0 if kept.get("min_count") == 0 else least, largest, sizes


def _command(kept: Mapping[str, Any], errors: list[FieldError]) -> tuple[str, ...]:
    command = kept.get("command", ())
    is_told = any(error.path.startswith("command") for error in errors)
    if not command and "image" not in kept and not is_told:
        note(errors, FieldError(path="command", message='is missing; say what to run, such as ["python", "train.py"]'))
    if isinstance(command, str):
        if kept.get("shell"):
            return (SHELL, "-c", command)
        advice = 'write a list such as ["python", "train.py"], or add "shell: true" to have a shell read the text'
        note(errors, FieldError(path="command", message=f"is one text, and no shell reads it; {advice}"))
        return ()
    if kept.get("shell"):
        note(errors, FieldError(path="shell", message="is only for a command given as one text"))
    return tuple(command)


def _argument(value: object) -> str:
    return _plain(value, _ARG_BYTES)


def _plain(value: object, bytes_most: int) -> str:
    """Text for another program: any character but NUL, kept exactly."""
    if type(value) is not str or not value.isascii():
        value = text(value)
    if "\0" in value:
        raise WrongValueError("contains a NUL character")
    if len(value) * 4 > bytes_most and len(value.encode()) > bytes_most:
        raise WrongValueError(f"is longer than {bytes_most} bytes")
    if PLACEHOLDER in value:
        raise WrongValueError(f'must not contain "{PLACEHOLDER}", which marks sealed values')
    return value


def _model(value: object) -> str:
    model: str = visible_text("token_chars")(value)
    if not model:
        raise WrongValueError("must not be empty")
    return model
