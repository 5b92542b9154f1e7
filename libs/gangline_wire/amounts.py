"""How amounts by dimension are written and read: {gpus: 16, "gpus:A100": 8, gpu_memory: 640Gi, cpus: 64, jobs: 10}."""

from collections.abc import Callable, Mapping

from gangline_wire.fields import is_full, mapping, note, str_key, unknown_field
from gangline_wire.problem import FieldError, FieldErrorsError, WrongValueError
from gangline_wire.quantity import kind_name, read_mebibytes, read_milli

AMOUNT_MOST = 10**15

WORDS = {
    "gpus": "gpu_milli",
    "gpu_memory": "gpu_memory_mib",
    "cpus": "cpu_milli",
    "memory": "memory_mib",
    "jobs": "jobs",
    "device": "device",
}
"""What people write -> dimension; gpus and device may be followed by a colon and a name."""
NAMES = {dimension: word for word, dimension in WORDS.items()}
_MEBIBYTE_UNITS = (("Ti", 1 << 20), ("Gi", 1 << 10), ("Mi", 1))


def read_amounts(value: object) -> dict[str, int]:
    """Amounts by dimension.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    amounts: dict[str, int] = {}
    errors: list[FieldError] = []
    for key, amount in mapping(value).items():
        if is_full(errors):
            break
        try:
            dimension = read_dimension(key)
            amounts[dimension] = read_amount(dimension, amount)
        except WrongValueError as error:
            note(errors, FieldError(path=str_key(key), message=str(error)))
    if errors:
        raise FieldErrorsError(errors)
    return amounts


def read_dimension(word: object) -> str:
    """The dimension that a word such as "gpus:A100" stands for.

    Raises:
        WrongValueError: there is none.
    """
    kind, colon, name = word.partition(":") if isinstance(word, str) else ("", "", "")
    is_named = kind in ("gpus", "device") and bool(name)
    if kind not in WORDS or (colon and not is_named) or (kind == "device" and not name):
        raise WrongValueError(unknown_field(word, (*WORDS, "gpus:MODEL", "device:NAME")))
    return WORDS[kind] + colon + name


def read_amount(dimension: str, value: object) -> int:
    """One amount of a dimension, in its unit.

    Raises:
        WrongValueError: no such amount.
    """
    readers: dict[str, Callable[[object], int]] = {
        "gpu_milli": read_milli,
        "cpu_milli": read_milli,
        "memory_mib": read_mebibytes,
        "gpu_memory_mib": read_mebibytes,
    }
    amount = readers.get(dimension.partition(":")[0], _count)(value)
    if amount > AMOUNT_MOST:
        raise WrongValueError(f"must be at most {AMOUNT_MOST}")
    return amount


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise WrongValueError(f"must be a whole number, not {kind_name(value)}")
    return value


def show_amounts(amounts: Mapping[str, int]) -> dict[str, int | float | str]:
    """The same as people write them."""
    return {show_dimension(dimension): show_amount(dimension, amount) for dimension, amount in sorted(amounts.items())}


def show_dimension(dimension: str) -> str:
    """ "gpu_milli:A100" is "gpus:A100"."""
    kind, colon, name = dimension.partition(":")
    return NAMES.get(kind, kind) + colon + name


def show_amount(dimension: str, amount: int) -> int | float | str:
    """8000 GPU thousandths are 8, 1536 MiB are "1536Mi", 2048 MiB are "2Gi"."""
    kind = dimension.partition(":")[0]
    if kind in ("gpu_milli", "cpu_milli"):
        return amount // 1000 if amount % 1000 == 0 else amount / 1000
    if kind in ("memory_mib", "gpu_memory_mib"):
        unit, size = next((unit, size) for unit, size in _MEBIBYTE_UNITS if amount % size == 0)
        return f"{amount // size}{unit}" if amount else 0
    return amount
