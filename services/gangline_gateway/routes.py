"""Every route of the HTTP API, once: the server, the OpenAPI document and the tests read this table."""

from gangline_gateway import console_files, service
from gangline_gateway.route_parts import TEXT
from gangline_gateway.routes_jobs import JOB_ROUTES
from gangline_gateway.routes_platform import PLATFORM_ROUTES
from gangline_gateway.table import Route
from gangline_wire import views as v

SERVICE_ROUTES = (
    Route("GET", "/", console_files.to_console, "To the console.", "text/html", status=302, is_open=True),
    Route(
        "GET",
        "/console/{file:.*}",
        console_files.send_file,
        "The web console and its files.",
        "text/html",
        problems=("not_found",),
        is_open=True,
    ),
    Route("GET", "/openapi.json", service.openapi, "This document.", "application/json", is_open=True),
    Route("GET", "/version", service.version, "What runs here.", v.VersionView, is_open=True),
    Route("GET", "/livez", service.livez, "The process answers.", TEXT, is_open=True),
    Route("GET", "/readyz", service.readyz, "It can do its work.", TEXT, problems=("unavailable",), is_open=True),
    Route(
        "GET",
        "/metrics",
        service.metrics,
        "Prometheus metrics, for administrators and all-seeing readers.",
        TEXT,
        problems=("forbidden",),
    ),
)

ROUTES = JOB_ROUTES + PLATFORM_ROUTES + SERVICE_ROUTES
"""In the order in which addresses are tried."""
