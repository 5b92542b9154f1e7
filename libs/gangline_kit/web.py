"""The small web server of every service: is it alive, is it ready, what does it measure."""

from collections.abc import Callable

from aiohttp import web

from gangline_kit.metrics import CONTENT_TYPE, Metrics

SHUTDOWN_S = 1.0

Readiness = Callable[[], str]
"""Why the service is not ready; "" when it is."""


class HealthServer:
    """/livez, /readyz and /metrics on one port."""

    def __init__(self, metrics: Metrics, readiness: Readiness) -> None:
        """`readiness` is asked at each /readyz."""
        self.port = -1
        self._metrics = metrics
        self._readiness = readiness
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one, which `port` then tells."""
        app = web.Application()
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._render)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=SHUTDOWN_S,
            auto_decompress=False,  # what nobody reads is not to be unpacked first
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _livez(self, request: web.Request) -> web.Response:
        # That the loop answers is the whole proof of life.
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        why_not = self._readiness()
        return web.Response(text=f"{why_not or 'ok'}\n", status=503 if why_not else 200)

    async def _render(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})
