"""What is wrong with something a user wrote: where, and why, in words they can act on."""

from msgspec import Struct


class FieldError(Struct, frozen=True):
    """One wrong field; `path` is spelled as the user would, such as "roles[0].memory"."""

    path: str
    message: str


class FieldErrorsError(Exception):
    """A document with at least one wrong field; `errors` has all that were found."""

    def __init__(self, errors: list[FieldError]) -> None:
        """Keep the errors and say the first ones."""
        super().__init__("; ".join(f"{error.path}: {error.message}" for error in errors[:5]))
        self.errors = errors


class WrongValueError(ValueError):
    """One value that cannot be accepted; the message says why and how it is written rightly."""
