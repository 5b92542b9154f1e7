"""What every web service tells of itself: document, version, life, readiness, metrics."""

from gangline_gateway.call import Answer, Call
from gangline_gateway.problems import ProblemError
from gangline_kit.metrics import CONTENT_TYPE
from gangline_kit.service import build_version
from gangline_wire.views import VersionView

PLAIN = "text/plain; charset=utf-8"


async def openapi(call: Call) -> Answer:
    """GET /openapi.json."""
    return Answer(call.desk.document, headers={"Cache-Control": "max-age=300"})


async def version(call: Call) -> VersionView:
    """GET /version."""
    return VersionView(version=build_version())


async def livez(call: Call) -> Answer:
    """GET /livez: that the loop answers is the whole proof of life."""
    return Answer(b"ok\n", media_type=PLAIN)


async def readyz(call: Call) -> Answer:
    """GET /readyz."""
    why_not = call.desk.site.why_not_ready()
    return Answer(f"{why_not or 'ok'}\n".encode(), status=503 if why_not else 200, media_type=PLAIN)


async def metrics(call: Call) -> Answer:
    """GET /metrics."""
    if not call.caller.sees_all:
        raise ProblemError("forbidden", "Metrics are for administrators and all-seeing readers.")
    return Answer(call.desk.site.metrics.render(), media_type=CONTENT_TYPE)
