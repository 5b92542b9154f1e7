"""Programs of the dollhouse that tell their agent what a step takes, as the contract for elastic jobs has it."""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from dollhouse.loop import pause
from gangline_agent.runner import Order
from gangline_core.ids import TaskId
from gangline_wire.contract import Report

STEP_TIME = "step_time_s"
"""Attribute of a job that tells of its steps, and uses no more of its GPUs' memory than it said."""
EVERY_S = 4.0
SLOWER = (1.2, 2.6)
"""Steps take so many times as long beside another job on the same GPUs: of every other job more than turns would."""
BUSY_PERCENT = 30


class Programs(Protocol):
    """Whatever runs."""

    def at_work(self) -> Iterable[Order]:
        """What runs and does not stand still."""


class Hears(Protocol):
    """The agent's ear."""

    def report(self, name: TaskId, said: Report) -> None:
        """A member says how far its job is."""


class Shows(Protocol):
    """The driver."""

    busy_percent: int | None


async def tell_steps(programs: Programs, agent: Hears, driver: Shows) -> None:
    """Every few seconds all programs that tell anything do, for ever."""
    step = 0
    while True:
        await pause(EVERY_S)
        step += 1
        orders = list(programs.at_work())
        on = Counter((order.task.node, share.index) for order in orders for share in order.task.gpus)
        for order in orders:
            alone_s = order.job.spec.attributes.get(STEP_TIME, 0)
            if not isinstance(alone_s, float) or not alone_s:
                continue
            driver.busy_percent = BUSY_PERCENT
            is_shared = any(on[order.task.node, share.index] > 1 for share in order.task.gpus)
            times = SLOWER[order.task.job % 2] if is_shared else 1.0
            agent.report(order.task.id, Report(step=step, step_s=alone_s * times, batch=32))
