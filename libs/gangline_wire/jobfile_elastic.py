"""How a job file says which sizes a role may have, and what a change of size is for the job."""

from msgspec import Struct

from gangline_core.spec import Elastic, Pausing, ResizeKind
from gangline_wire.durations import read_seconds
from gangline_wire.fields import each, listed, mapping, read_fields, text, whole
from gangline_wire.limits import most
from gangline_wire.problem import FieldError, FieldErrorsError, WrongValueError
from gangline_wire.quantity import read_mebibytes

POWERS = "powers_of_two"
MULTIPLES = "multiples_of"
SIZE_FIELDS = ("min", "max", "preferred", "count", "tasks", "sizes")
"""What a role says of its sizes; often looked for in `elastic`."""
BESIDE = "stands beside elastic: in the role, or at the top of a job of one role"


class SizeRule(Struct, frozen=True):
    """Sizes by a rule: multiples of `step`, or powers of two when it is 0."""

    step: int = 0

    def sizes(self, least: int, largest: int) -> tuple[int, ...]:
        """All of them from the least to the largest size."""
        if self.step:
            first = -(-least // self.step) * self.step
            return tuple(range(first, largest + 1, self.step))
        return tuple(1 << k for k in range(largest.bit_length()) if least <= 1 << k <= largest)


def read_sizes(value: object) -> tuple[int, ...] | SizeRule:
    """Allowed sizes, ascending, or a rule for them: "powers_of_two" or {multiples_of: 3}.

    Raises:
        WrongValueError, FieldErrorsError: neither.
    """
    if isinstance(value, str):
        if value != POWERS:
            raise WrongValueError(f'must be a list such as [1, 2, 4], "{POWERS}", or a mapping such as {MULTIPLES}: 3')
        return SizeRule()
    if isinstance(value, dict):
        errors: list[FieldError] = []
        kept = read_fields(value, {MULTIPLES: ("step", whole("tasks", least=1))}, errors)
        if not errors and not kept:
            errors.append(FieldError(path=MULTIPLES, message="is missing"))
        if errors:
            raise FieldErrorsError(errors)
        return SizeRule(**kept)
    sizes = each(listed(value, "sizes"), whole("tasks", least=1))
    if not sizes or list(sizes) != sorted(set(sizes)):
        raise WrongValueError("must be an ascending list of different sizes, such as [1, 2, 4]")
    return sizes


def read_elastic(value: object) -> Elastic:
    """What a change of size is for the job, and how long its steps may take.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    document = mapping(value)
    errors = [FieldError(path=name, message=BESIDE) for name in SIZE_FIELDS if name in document]
    kept = read_fields({name: one for name, one in document.items() if name not in SIZE_FIELDS}, ELASTIC_FIELDS, errors)
    if errors:
        raise FieldErrorsError(errors)
    return Elastic(**kept)


def read_pausing(value: object) -> Pausing:
    """What stays in the memory of each GPU while the job is paused, and how long before it is told.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    errors: list[FieldError] = []
    kept = read_fields(mapping(value), PAUSE_FIELDS, errors)
    if errors:
        raise FieldErrorsError(errors)
    return Pausing(**kept)


def read_kind(value: object) -> ResizeKind:
    """One of the kinds.

    Raises:
        WrongValueError: none of them.
    """
    try:
        return ResizeKind(text(value))
    except ValueError:
        raise WrongValueError(f"must be one of {', '.join(ResizeKind)}") from None


def _seconds(value: object) -> int:
    seconds = read_seconds(value)
    if seconds > most("duration_s"):
        raise WrongValueError("is longer than any duration may be (duration_s)")
    return seconds


def _stays(value: object) -> int:
    mebibytes = read_mebibytes(value)
    if mebibytes > most("gpu_memory_mib"):
        raise WrongValueError("is more than any GPU has (gpu_memory_mib)")
    return mebibytes


ELASTIC_FIELDS = {
    "kind": ("kind", read_kind),
    "notice": ("notice_s", _seconds),
    "confirm": ("confirm_s", _seconds),
    "start": ("start_s", _seconds),
    "cooldown": ("cooldown_s", _seconds),
    "cost": ("cost_s", _seconds),
}
PAUSE_FIELDS = {
    "gpu_memory": ("gpu_memory_mib", _stays),
    "notice": ("notice_s", _seconds),
}
