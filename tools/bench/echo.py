"""The HTTP floor: an aiohttp server that does nothing but read a body and answer; run as a process of its own."""

import asyncio

import uvloop
from aiohttp import web

from bench.child import say_ready, until_parent_leaves

ANSWER = b'{"id": 1, "name": "echo", "state": "waiting"}'


async def echo(request: web.Request) -> web.Response:
    """Read everything, answer something short."""
    await request.read()
    return web.Response(body=ANSWER, status=202, content_type="application/json")


async def main() -> None:
    """Serve on a free loopback port until the parent leaves."""
    app = web.Application(client_max_size=16 << 20)
    app.router.add_post("/{path:.*}", echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    say_ready({"url": f"http://{host}:{port}"})
    await until_parent_leaves()
    await runner.cleanup()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner_of_loop:
        runner_of_loop.run(main())
