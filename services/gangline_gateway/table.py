"""What a route is: a row that the server, the documentation and the tests read."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from gangline_gateway.call import Call, Outcome

Handler = Callable[[Call], Awaitable[Outcome]]


class Parameter(Struct, frozen=True):
    """One query parameter."""

    name: str
    meaning: str
    kind: str = "string"
    """JSON type: "string", "integer" or "boolean"."""
    example: str = ""


class Route(Struct, frozen=True):
    """One method of one address."""

    method: str
    template: str
    """As aiohttp writes it, such as "/v1/jobs/{id}"."""
    handler: Handler
    summary: str
    answers: Any
    """View that is answered, or a media type for anything else."""
    status: int = 200
    query: tuple[Parameter, ...] = ()
    body: Any = None
    """Struct of the request's body, the name of a hand-written schema, or None."""
    body_optional: bool = False
    named: tuple[str, ...] = ()
    """Fields of the body that may be left out, since the address names them already (or the default pool is meant)."""
    example: Any = None
    """An example of the body."""
    problems: tuple[str, ...] = ()
    """Codes beyond those that any route may answer."""
    is_open: bool = False
    """True for routes that need no token."""
    is_stream: bool = False
    has_etag: bool = False
    is_idempotent_by_key: bool = False

    @property
    def changes(self) -> bool:
        """True for routes that change something."""
        return self.method != "GET"

    @property
    def query_names(self) -> tuple[str, ...]:
        """Names of the query parameters it knows."""
        return tuple(parameter.name for parameter in self.query)

    @property
    def path(self) -> str:
        """The template as OpenAPI writes it, without patterns."""
        return "/".join("{" + part[1:].partition(":")[0].rstrip("}") + "}" if part.startswith("{") else part
                        for part in self.template.split("/"))  # fmt: skip
