"""What the gateway answers when it says no: problem details (RFC 9457), one row per code."""

from collections.abc import Sequence

from msgspec import Struct

from gangline_wire.problem import FieldError
from gangline_wire.views import FieldErrorView, ProblemView, RefusalView

MEDIA_TYPE = "application/problem+json"
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="gangline"'}
"""What comes with 401."""


class Kind(Struct, frozen=True):
    """One kind of problem: its status and its title."""

    status: int
    title: str


KINDS: dict[str, Kind] = {
    "malformed_request": Kind(400, "The request cannot be read"),
    "malformed_json": Kind(400, "The body is not valid JSON"),
    "invalid_query": Kind(400, "A query parameter is wrong"),
    "invalid_cursor": Kind(400, "The cursor is not one of ours for this question"),
    "unauthorized": Kind(401, "A valid token is needed"),
    "forbidden": Kind(403, "The token does not allow this"),
    "forbidden_host": Kind(403, "This address is not served here"),
    "not_found": Kind(404, "There is no such thing"),
    "method_not_allowed": Kind(405, "The address does not know this method"),
    "conflict": Kind(409, "The present state does not allow this"),
    "version_conflict": Kind(412, "Somebody else changed it meanwhile"),
    "body_too_large": Kind(413, "The body is too large"),
    "unsupported_media_type": Kind(415, "The body must be JSON"),
    "invalid_fields": Kind(422, "Some fields are wrong"),
    "key_reused": Kind(422, "The Idempotency-Key was used for something else"),
    "refused": Kind(422, "The job was refused"),
    "too_many": Kind(429, "Too many at once"),
    "headers_too_large": Kind(431, "The headers are too large"),
    "internal": Kind(500, "This is a defect of the platform"),
    "unavailable": Kind(503, "Nobody can answer this now"),
}
"""Code -> kind. The codes are part of the API; a new one is a new row."""


class ProblemError(Exception):
    """The request cannot be served, and the client is told why."""

    def __init__(
        self,
        code: str,
        detail: str = "",
        *,
        errors: Sequence[FieldError] = (),
        refusals: Sequence[RefusalView] = (),
        retry_after_s: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """One of the codes of KINDS, and what is known beyond it."""
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.refusals = tuple(refusals)
        self.retry_after_s = retry_after_s
        self.headers = headers or {}

    @property
    def status(self) -> int:
        """The HTTP status."""
        return KINDS[self.code].status

    def view(self, *, instance: str, request_id: str) -> ProblemView:
        """The body of the answer."""
        return ProblemView(
            type=f"/problems#{self.code}",
            title=KINDS[self.code].title,
            status=self.status,
            code=self.code,
            detail=self.detail,
            instance=instance,
            request_id=request_id,
            errors=tuple(FieldErrorView(path=error.path, message=error.message) for error in self.errors),
            refusals=self.refusals,
            retry_after_s=self.retry_after_s,
        )


def not_found(what: str) -> ProblemError:
    """The one answer for what does not exist and for what the caller may not see."""
    return ProblemError("not_found", f"There is no {what}, or your token does not show it.")


def invalid(path: str, message: str) -> ProblemError:
    """One wrong field."""
    return ProblemError("invalid_fields", f"{path}: {message}", errors=[FieldError(path=path, message=message)])


def wrong_query(name: str, message: str) -> ProblemError:
    """One wrong query parameter."""
    path = f"?{name}"
    return ProblemError("invalid_query", f"{path}: {message}", errors=[FieldError(path=path, message=message)])
