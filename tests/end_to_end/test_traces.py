"""One trace follows a job from HTTP submit to the release of its room, through every service that touched it."""

import asyncio
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.patience import LONG_S

from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform

pytestmark = pytest.mark.end_to_end

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
STEPS = {"submit", "admit", "wait", "place", "start task", "task", "run", "job"}


async def test_one_trace_follows_a_job_from_submit_to_release(tmp_path: Path) -> None:
    spans: dict[str, str] = {}
    whole = asyncio.Event()

    async def collect(request: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for resource in sent.resource_spans:
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                spans[span.name] = span.trace_id.hex()
        if set(spans) >= STEPS:
            whole.set()
        return web.Response()

    collector = web.Application()
    collector.router.add_post("/v1/traces", collect)
    runner = web.AppRunner(collector)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    config = PlatformConfig(data_dir=tmp_path, otlp_endpoint=f"http://127.0.0.1:{port}", user="ann")
    async with Platform(config) as platform, aiohttp.ClientSession() as client:
        job = {"group": "default", "user": "ann", "cpus": 1, "command": [sys.executable, "-c", "print(1)"]}
        headers = {"Authorization": f"Bearer {platform.token}", "traceparent": PARENT}
        async with client.post(f"{platform.url}/v1/jobs", json=job, headers=headers) as answer:
            assert answer.status == 202, await answer.text()
        async with asyncio.timeout(LONG_S):
            await whole.wait()
    await runner.cleanup()
    assert {name: spans[name] for name in STEPS} == dict.fromkeys(STEPS, TRACE)
