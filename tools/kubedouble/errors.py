"""Refusals as the real server words them: a Status object with code, reason and message."""

from typing import Any


class ApiError(Exception):
    """An answer that is a Status of failure."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        """`details` become the Status' details."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> dict[str, Any]:
        """The Status object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        return {**body, "details": self.details} if self.details else body


def not_found(resource: str, name: str) -> ApiError:
    """There is no such object."""
    return ApiError(404, "NotFound", f'{resource} "{name}" not found', name=name, kind=resource)


def already_exists(resource: str, name: str) -> ApiError:
    """The name is taken."""
    return ApiError(409, "AlreadyExists", f'{resource} "{name}" already exists', name=name, kind=resource)


def conflict(resource: str, name: str, why: str) -> ApiError:
    """Somebody else was faster."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return ApiError(409, "Conflict", message, name=name, kind=resource)


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: str, name: str, faults: list[str]) -> ApiError:
    """The object does not fit its kind's rules."""
    causes = [{"message": fault, "field": fault.partition(":")[0]} for fault in faults]
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {"; ".join(faults)}', name=name, causes=causes)


def bad_request(message: str) -> ApiError:
    """The request itself makes no sense."""
    return ApiError(400, "BadRequest", message)


def gone(message: str = "The resourceVersion for the provided watch is too old.") -> ApiError:
    """The asked-for version is no longer kept."""
    return ApiError(410, "Expired", message)
