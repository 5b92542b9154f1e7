"""A task that runs gets more or less time without being touched otherwise."""

from pathlib import Path

from msgspec.structs import replace
from tests.services.agent.rig import an_order, rig

from gangline_agent.runner import Order, Phase
from gangline_agent.simulated import SimulatedRunner
from gangline_core.facts import ExitCause
from gangline_core.job import Job
from gangline_kit.clock import ManualClock


def with_limit(order: Order, limit_s: int) -> Job:
    return replace(order.job, spec=replace(order.job.spec, time_limit_s=limit_s), retimed=True)


async def test_a_process_whose_limit_is_cut_ends_by_the_new_one(tmp_path: Path) -> None:
    order = an_order("/bin/sleep", "1000", time_limit_s=900)
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.phase(order, Phase.RUNNING)
        made.runner.retime(order.task, with_limit(order, 1))
        local = await made.phase(order, Phase.EMPTY)
        assert (local.cause, local.exit_code) == (ExitCause.TIME_LIMIT, 143)


async def test_a_process_that_gets_more_time_has_it_written_down_for_the_next_agent(tmp_path: Path) -> None:
    order = an_order("/bin/sleep", "1000", time_limit_s=60)
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.phase(order, Phase.RUNNING)
        made.runner.retime(order.task, with_limit(order, 7200))
        kept = made.runner.lives[order.task.id].folder.intent()
        assert kept is not None
        assert kept.limit_s == 7200
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        await made.phase(order, Phase.EMPTY)


async def test_a_simulated_task_ends_as_much_earlier_or_later() -> None:
    order = an_order("true", time_limit_s=100)
    order = replace(order, job=replace(order.job, spec=replace(order.job.spec, attributes={"run_time_s": 500})))
    clock = ManualClock()
    runner = SimulatedRunner(clock, lambda task: None)
    runner.start(order)
    began_s = clock.monotonic_s()
    runner.retime(order.task, with_limit(order, 200))
    runner.end_due(began_s + 150)
    assert runner.known[order.task.id].phase == Phase.RUNNING
    runner.retime(order.task, with_limit(order, 160))
    runner.retime(order.task, with_limit(order, 160))
    runner.end_due(began_s + 159)
    assert runner.known[order.task.id].phase == Phase.RUNNING
    runner.end_due(began_s + 160)
    assert (runner.known[order.task.id].phase, runner.known[order.task.id].cause) == (
        Phase.EMPTY,
        ExitCause.TIME_LIMIT,
    )


async def test_the_server_of_gpus_of_other_machines_serves_on_when_its_job_gets_another_limit() -> None:
    order = an_order("true", attributes={"run_time_s": 50})
    client = order.job.spec.roles[0]
    server = replace(client, name="server", serves=client.name)
    serving = replace(order.job, spec=replace(order.job.spec, roles=(client, server)))
    order = replace(order, job=serving, task=replace(order.task, role="server"))
    clock = ManualClock()
    runner = SimulatedRunner(clock, lambda task: None)
    runner.start(order)
    runner.retime(order.task, with_limit(order, 7200))
    runner.end_due(clock.monotonic_s() + 7000)
    assert runner.known[order.task.id].phase == Phase.RUNNING
