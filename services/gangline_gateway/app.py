"""The shell of the gateway: an aiohttp server whose routes are the table's, until cancelled."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from gangline_gateway.call import Desk
from gangline_gateway.config import Config
from gangline_gateway.door import Door, never_called
from gangline_gateway.handshakes import EncryptedSite
from gangline_gateway.openapi import document_bytes
from gangline_gateway.routes import ROUTES
from gangline_gateway.table import Route
from gangline_gateway.unreadable import Runner
from gangline_kit.errors import PermanentError
from gangline_kit.service import Site
from gangline_wire.limits import most

log = logging.getLogger(__name__)

HEADER_BYTES_MAX = 16 << 10
KEEPALIVE_S = 75.0
BACKLOG = 1024
DOOR = web.AppKey("door", Door)
DESK = web.AppKey("desk", Desk)


class OnlyOurFaults(logging.Filter):
    """Keeps what is no HTTP, and who hangs up, out of the log: anybody could fill it with that."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a fault of the sender."""
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | ConnectionError))


ONLY_OUR_FAULTS = OnlyOurFaults()

Ready = Callable[[str], None]
"""Told the address once the gateway listens."""
Listen = Callable[[web.AppRunner, Config], Awaitable[str]]
"""Opens the door to the world and gives its address."""


async def run(site: Site, config: Config, ready: Ready | None = None, *, listen: Listen | None = None) -> None:
    """Serve until cancelled, over TCP unless `listen` opens another door."""
    logging.getLogger("aiohttp.server").addFilter(ONLY_OUR_FAULTS)
    runner = Runner(
        make_app(site, config),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=config.shutdown_s,
        keepalive_timeout=KEEPALIVE_S,
        # The door refuses packed bodies; unpacking what is thrown away would hold the loop for seconds.
        auto_decompress=False,
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
    )
    await runner.setup()
    try:
        address = await (listen or listen_on_tcp)(runner, config)
        log.info("the HTTP API listens on %s", address)
        if ready is not None:
            ready(address)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


async def listen_on_tcp(runner: web.AppRunner, config: Config) -> str:
    """Listen where the settings say, encrypted if they say so."""
    tls = _tls(config)
    site_class = web.TCPSite if tls is None else EncryptedSite
    await site_class(runner, config.host, config.port, backlog=BACKLOG, ssl_context=tls).start()
    return url(config.host, runner.addresses[0][1], secure=tls is not None)


def make_app(site: Site, config: Config) -> web.Application:
    """The application: every route of the table behind the one door."""
    desk = Desk(site, config)
    desk.document = document_bytes()
    door = Door(desk)
    app = web.Application(middlewares=[door.middleware], client_max_size=most("body_bytes"))
    app[DOOR] = door
    app.on_shutdown.append(_end_streams)
    app[DESK] = desk
    site.metrics.before_render(lambda: site.metrics.set("gangline_http_requests_in_flight", door.in_flight))
    for route in ROUTES:
        for method in _methods(route):
            door.routes[app.router.add_route(method, route.template, never_called)] = route
    return app


def _methods(route: Route) -> tuple[str, ...]:
    """Probes of balancers and link checkers ask for the head alone of what everybody may read."""
    is_read = route.is_open and route.method == hdrs.METH_GET
    return (hdrs.METH_GET, hdrs.METH_HEAD) if is_read else (route.method,)


async def _end_streams(app: web.Application) -> None:
    """Streams that would never end by themselves must not hold the gateway's end up; clients take them up again."""
    for task in tuple(app[DESK].streams):
        task.cancel()


def _tls(config: Config) -> ssl.SSLContext | None:
    """How the API is encrypted; None when it is not.

    Raises:
        PermanentError: certificate or key cannot be used.
    """
    if not config.cert_file and not config.key_file:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.cert_file, config.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise PermanentError(f"certificate {config.cert_file} and key {config.key_file}: {error}") from error
    return context


def url(host: str, port: int, *, secure: bool = False) -> str:
    """The address as clients write it."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{'https' if secure else 'http'}://{shown}:{port}"
