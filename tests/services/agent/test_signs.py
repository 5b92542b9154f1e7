"""Signs of life and of trouble that a task's files give, on real processes."""

from pathlib import Path

from tests.services.agent.rig import an_order, rig

from gangline_agent import signs
from gangline_agent.runner import Phase

WRITE = ("/bin/sh", "-c", 'touch "$TORCH_FR_DUMP_TEMP_FILE"3; echo done; sleep 1000')


async def test_a_program_whose_collective_timed_out_is_seen_by_the_record_it_leaves(tmp_path: Path) -> None:
    order = an_order(*WRITE, gpus=1)
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.phase(order, Phase.RUNNING)
        await made.heard(order, "done")
        assert signs.stuck(made.runner.lives.values()) == (order.task.id,)
        assert signs.beats(made.runner.lives.values()) == {}
        made.kill_everything()


async def test_a_job_says_itself_where_its_records_go_and_a_job_without_gpus_gets_no_recorder(tmp_path: Path) -> None:
    show = ("/bin/sh", "-c", 'echo "[$TORCH_FR_DUMP_TEMP_FILE] [$TORCH_NCCL_DUMP_ON_TIMEOUT]"')
    own = an_order(*show, gpus=1, env={"TORCH_FR_DUMP_TEMP_FILE": "/data/mine_"})
    without = an_order(*show)
    async with rig(tmp_path / "own") as made:
        await made.finish(own)
        assert made.output(own) == "[/data/mine_] [1]\n"
    async with rig(tmp_path / "without") as made:
        await made.finish(without)
        assert made.output(without) == "[] []\n"


async def test_a_heartbeat_is_the_time_of_the_file_and_ends_with_the_task(tmp_path: Path) -> None:
    order = an_order("/bin/sh", "-c", 'touch "$GANGLINE_TASK_HEARTBEAT_FILE"; echo done; sleep 1000')
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.phase(order, Phase.RUNNING)
        await made.heard(order, "done")
        assert signs.beats(made.runner.lives.values())[order.task.id] > 0
        assert signs.stuck(made.runner.lives.values()) == ()
        made.kill_everything()


async def test_processes_of_a_task_and_of_what_it_started_are_found_together(tmp_path: Path) -> None:
    order = an_order("/bin/sh", "-c", "sleep 1000 & sleep 1000 & echo ready; wait")
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.phase(order, Phase.RUNNING)
        await made.heard(order, "ready")
        found = made.runner.group.by_task(list(made.runner.lives.values()))
        assert len(found[order.task.id]) == 3
        made.kill_everything()
