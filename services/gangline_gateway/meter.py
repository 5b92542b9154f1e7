"""How requests are counted and timed: by route, method and status, with the labels looked up once."""

from collections.abc import Callable

from gangline_gateway.table import Route
from gangline_kit.metrics import Metrics

UNROUTED = "unknown"
"""Label of requests that no route serves, so that scanners cannot fill the metrics."""
REQUESTS = "gangline_http_requests_total"
DURATION = "gangline_http_request_duration_seconds"


class Meter:
    """The counters of one gateway."""

    def __init__(self, metrics: Metrics) -> None:
        """Nothing counted yet."""
        self._metrics = metrics
        self._counters: dict[tuple[str, str, int], Callable[[], None]] = {}
        self._timers: dict[str, Callable[[float], None]] = {}

    def note(self, route: Route | None, status: int, seconds: float) -> None:
        """One request was answered after so many seconds."""
        template, method = (route.template, route.method) if route is not None else (UNROUTED, UNROUTED)
        count = self._counters.get((template, method, status))
        if count is None:
            count = self._metrics.counter(REQUESTS, route=template, method=method, status=str(status)).inc
            self._counters[template, method, status] = count
        count()
        if route is not None and route.is_stream:
            return
        observe = self._timers.get(template)
        if observe is None:
            observe = self._timers[template] = self._metrics.histogram(DURATION, route=template).observe
        observe(seconds)
