"""Settings of every test run."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from tests import watched

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
def every_simulated_run_passes_the_oracles() -> Iterator[None]:
    """Worlds that a test has played are closed when it is over: their logs must fold and decide to the same again."""
    yield
    watched.close_all()
