"""Draws docs/http-api.md: every route, problem and limit of the HTTP API."""

from draw.markdown import code, document, table
from gangline_gateway.problems import KINDS, MEDIA_TYPE
from gangline_gateway.routes import ROUTES
from gangline_gateway.table import Route
from gangline_wire.limits import LIMITS

EXAMPLE = """\
```console
$ curl -sS "$GANGLINE_URL/v1/jobs" -H "Authorization: Bearer $GANGLINE_TOKEN" -H 'Content-Type: application/json' \\
    -d '{"name": "train", "gpus": 1, "command": ["python", "train.py"]}'
```"""


def page() -> str:
    """The page."""
    return document(
        "HTTP API",
        "Version 1, JSON in and out. Send the token as `Authorization: Bearer ...`. A running gateway serves the whole "
        "description as OpenAPI 3.1 at `/openapi.json`, drawn from the same table as this page. Submits take an "
        "`Idempotency-Key`: a repeat gets the first answer. A job's body is a [job file](job-file.md).",
        EXAMPLE,
        "Bodies are JSON and say so in `Content-Type`. `gangline token issue` makes tokens; the first administrator's "
        "stands in `admin.token` of the data folder that `gangline up` prints.",
        "## Routes",
        table(("Route", "Does", "Query", "Answers"), map(route_row, ROUTES)),
        "## Problems",
        f"Errors are `{MEDIA_TYPE}` with one of these codes, and name each wrong field by its path.",
        table(
            ("Code", "Status", "Title"), ((code(name), str(kind.status), kind.title) for name, kind in KINDS.items())
        ),
        "## Limits",
        "A refusal names the limit that it applies.",
        table(("Limit", "At most", "Of"), ((code(name), f"{row.most:,}", row.counts) for name, row in LIMITS.items())),
    )


def route_row(route: Route) -> tuple[str, ...]:
    """One route's line of the table."""
    answers = getattr(route.answers, "__name__", str(route.answers))
    query = ", ".join(code(name) for name in route.query_names)
    return (code(f"{route.method} {route.path}"), route.summary, query, f"{route.status} {code(answers)}")
