"""Settings of every test run."""

import asyncio
import os

from hypothesis import settings

# A slow machine is no broken promise, so examples have no deadline. In continuous integration the examples are the same
# each time: a change is judged by its own effect; everywhere else new ones are tried.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# A plugin that asks for the event loop outside a coroutine would make one and leave it unclosed; now it is told that
# there is none.
asyncio.set_event_loop(None)
