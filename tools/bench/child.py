"""Runs a part of a benchmark in a process of its own, so that its work does not count as the client's."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0


@asynccontextmanager
async def child(module: str, *arguments: str) -> AsyncIterator[dict[str, str]]:
    """The module's process while it runs; gives what its first line of output says, a JSON object of strings."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), READY_TIMEOUT_S)
        if not line:
            raise RuntimeError(f"{module} ended before it was ready")
        yield msgspec.json.decode(line, type=dict[str, str])
    finally:
        # The child ends when its standard input closes, so it ends too when we are killed.
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def say_ready(facts: dict[str, str]) -> None:
    """Called by the child: everything stands, and this is where."""
    print(msgspec.json.encode(facts).decode(), flush=True)


async def until_parent_leaves() -> None:
    """Called by the child: wait until the parent closes our standard input, or somebody asks us to end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, reader.feed_eof)
    await reader.read()
