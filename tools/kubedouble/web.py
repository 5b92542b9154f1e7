"""The double behind a real socket, for kubectl and for measuring."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from kubedouble.faults import CutError
from kubedouble.server import Double

BODY_BYTES_MAX = 8 << 20
KEPT = ("Content-Type", "Accept", "Authorization")


@asynccontextmanager
async def serving(double: Double, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """The URL of the double while the block lasts."""
    app = web.Application(client_max_size=BODY_BYTES_MAX)

    async def handler(request: web.Request) -> web.StreamResponse:
        return await _handle(double, request)

    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        double.store.hang_up()
        await runner.cleanup()


async def _handle(double: Double, request: web.Request) -> web.StreamResponse:
    headers = {name: request.headers[name] for name in KEPT if name in request.headers}
    body = await request.read()
    try:
        answer = await double.handle(request.method, request.path, request.query_string, body, headers)
        if answer.stream is None:
            is_text = request.path in ("/livez", "/readyz", "/healthz")
            form = "text/plain" if is_text else "application/json"
            return web.Response(status=answer.status, body=answer.body, content_type=form, headers=answer.headers)
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        async for part in answer.stream:
            await response.write(part)
        await response.write_eof()
        return response
    except ConnectionResetError:
        # Whoever watched has gone.
        return web.Response(status=500)
    except CutError:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
