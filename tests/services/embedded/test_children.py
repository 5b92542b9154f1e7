"""A service's process that dies by itself is started again, and whoever watches the platform reads of it."""

import asyncio
import logging
import sys
from pathlib import Path

import pytest
from tests.patience import LONG_S

from gangline_embedded import children
from gangline_embedded.children import Child
from gangline_kit.clock import SystemClock


class Told(logging.Handler):
    """What is said, and that something was."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.came = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.came.set()


async def test_the_end_of_a_service_is_told_with_its_name_and_where_its_log_is(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "idles.py").write_text("import time\ntime.sleep(600)\n")
    told, log_file = Told(), tmp_path / "queue.log"
    children.log.addHandler(told)
    request.addfinalizer(lambda: children.log.removeHandler(told))
    environ = {"PYTHONPATH": ":".join([str(tmp_path), *sys.path])}
    child = Child("queue", module="idles", environ=environ, log_file=log_file, clock=SystemClock())
    await child.start()
    try:
        child.kill()
        async with asyncio.timeout(LONG_S):
            await told.came.wait()
    finally:
        await child.stop()
    assert told.lines == [f"queue ended with code -9; it is started again, and its log is {log_file}"]
