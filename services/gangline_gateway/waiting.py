"""How the queue is shown, and why one job is where it is."""

from gangline_gateway.call import Call
from gangline_wire.views import ExplanationView, QueueView


async def show_queue(call: Call) -> QueueView:
    raise NotImplementedError


async def explain_job(call: Call) -> ExplanationView:
    raise NotImplementedError
