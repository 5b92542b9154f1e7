"""Settings of every test run."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests import watched
from tests.patience import free_port

# A slow machine is no broken promise, so examples have no deadline, and may be drawn slowly. Where all that must be
# green is run (tools/check says so) they are the same each time: a change is judged by its own effect; everywhere else
# new ones are tried.
SLOW = [HealthCheck.too_slow]
settings.register_profile("here", deadline=None, suppress_health_check=SLOW)
settings.register_profile("ci", deadline=None, suppress_health_check=SLOW, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# A plugin that asks for the event loop outside a coroutine would make one and leave it unclosed; now it is told that
# there is none.
asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def platforms_have_ports_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is free while a platform looks is anybody's until its gateway is there, or its broker there again."""
    platform = sys.modules.get("gangline_embedded.platform")
    if platform is None:
        return
    usable, server = platform.usable_port, platform.NatsServer

    def broker(directory: Path, *, port: int, **settings: Any) -> Any:
        return server(directory, port=free_port() if port == -1 else port, **settings)

    monkeypatch.setattr(platform, "usable_port", lambda host, wanted: usable(host, wanted or free_port()))
    monkeypatch.setattr(platform, "NatsServer", broker)


@pytest.fixture(autouse=True)
def every_simulated_run_passes_the_oracles() -> Iterator[None]:
    """Worlds that a test has played are closed when it is over: their logs must fold and decide to the same again."""
    yield
    watched.close_all()
