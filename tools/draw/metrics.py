"""Draws docs/metrics.md: every Prometheus metric, from the table that makes them."""

from draw.markdown import code, document, table
from gangline_kit.metrics import METRICS


def page() -> str:
    """The page."""
    rows = ((code(name), row.kind, ", ".join(map(code, row.labels)), row.help) for name, row in METRICS.items())
    return document(
        "Metrics",
        "Every service serves these at `/metrics` in Prometheus' text format, on the port that `GANGLINE_HTTP_PORT` "
        "names. A service shows the metrics it has something to say about. Units are the end of the name.",
        table(("Metric", "Kind", "Labels", "Meaning"), rows),
    )
