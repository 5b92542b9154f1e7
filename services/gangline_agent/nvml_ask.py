"""One question to the driver at a time: what it does not answer is None, and why stands under the field's name.

The library comes in as an argument: gangline_agent.nvml stays the only importer of the binding.
"""

from collections.abc import Callable
from typing import Any, TypeGuard

NUMBER_MAX = 1 << 62
ALL_ONES = 0xFFFFFFFF
"""How functions that give 32 bits say that there is no value."""
PERCENT_MAX = 100
FAULTS = (AttributeError, LookupError, OSError, TypeError, ValueError, ArithmeticError)
"""What the binding raises beside its own errors when library and driver do not fit together."""
WHY_LENGTH_MAX = 60
NOT_SUPPORTED = "Not Supported"
NO_NUMBER = "no number"
NO_TEXT = "no text"
NOTHING_SAID = ("n/a", "err!", "none", "null", "unknown error", "not supported", "gpu is lost")
"""Texts, in small letters, that stand where a name or a UUID should; so does anything that begins with a bracket."""


class Ask:
    """The questions about one card in one look."""

    def __init__(self, nvml: Any) -> None:
        """Nothing asked yet. `nvml` has the functions of pynvml."""
        self.nvml = nvml
        mismatch = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)
        """Raised by the binding, beside its own errors, for functions of another version than the library's."""
        self._errors = (nvml.NVMLError, mismatch, *FAULTS)
        self.silent: dict[str, str] = {}
        """Field -> what the driver said instead of a value."""

    def any(self, field: str, call: Callable[[], Any]) -> Any:
        """The answer, or None."""
        try:
            answer = call()
        except self._errors as error:
            self.silent[field] = str(error)[:WHY_LENGTH_MAX] or type(error).__name__
            return None
        if answer is None:
            self.silent.setdefault(field, NO_NUMBER)
        return answer

    def order(self, field: str, call: Callable[[], object]) -> None:
        """Have something done of which there is no answer."""
        self.any(field, lambda: (call(),))

    def number(self, field: str, call: Callable[[], Any]) -> int | None:
        """The answer when it is a number that can be one, or None."""
        value = self.any(field, call)
        if is_plausible(value):
            return int(value)
        self.silent.setdefault(field, NO_NUMBER)
        return None

    def share(self, field: str, call: Callable[[], Any]) -> int | None:
        """The answer when it is a whole number of percent, or None."""
        value = self.number(field, call)
        if value is None or value <= PERCENT_MAX:
            return value
        self.silent.setdefault(field, NO_NUMBER)
        return None

    def text(self, field: str, call: Callable[[], Any]) -> str | None:
        """The answer when it is a text that says something, or None."""
        said = text(self.any(field, call))
        if said is None:
            self.silent.setdefault(field, NO_TEXT)
        return said

    def part(self, field: str, whole: Any, call: Callable[[], Any], *, of: str) -> int | None:
        """A number out of the answer `whole`, which was asked for as `of` and may be missing as a whole."""
        if whole is None:
            self.silent[field] = self.silent.get(of, NO_NUMBER)
            return None
        return self.number(field, call)

    def flag(self, field: str, call: Callable[[], Any]) -> bool | None:
        """The answer as a yes or no, or None."""
        value = self.number(field, call)
        return None if value is None else bool(value)

    def percent(self, field: str, call: Callable[[], Any]) -> int | None:
        """The answer, a float from 0 to 100, rounded; None for anything else."""
        value = self.any(field, call)
        if isinstance(value, float) and 0 <= value <= 100:
            return round(value)
        self.silent.setdefault(field, NO_NUMBER)
        return None

    @property
    def why(self) -> dict[str, str]:
        """Silent fields that the card does not merely not have."""
        return {field: said for field, said in self.silent.items() if said != NOT_SUPPORTED}


def is_plausible(value: Any) -> TypeGuard[int]:
    """True for a number that can be one: "[N/A]", minus one and all bits set are ways to say that there is none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < NUMBER_MAX and value != ALL_ONES


def text(value: Any) -> str | None:
    """What the binding gives as bytes or as text; None for what drivers write where they have nothing to say."""
    said = value.decode(errors="replace") if isinstance(value, bytes) else value
    if not isinstance(said, str) or not said.strip():
        return None
    return None if said.lstrip().startswith("[") or said.strip().lower() in NOTHING_SAID else said
