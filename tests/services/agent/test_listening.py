"""A signal goes to who waits for it, and never to who would end of it: while programs are started nobody listens."""

import signal
import sys
from pathlib import Path

import pytest
from tests.services.agent.rig import Rig, an_order, rig

from gangline_agent import proc
from gangline_agent.group import BLOCKS_S
from gangline_agent.runner import Order, Phase
from gangline_core.facts import ExitCause

STARTS_OTHERS = ("/bin/sh", "-c", "echo ready; while :; do /bin/true; done; exit 7")
TAKES_IT_WHEN_IT_LIKES = """
import signal, threading, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
def take():
    print("took", signal.sigwait({signal.SIGUSR1}).name, flush=True)
threading.Thread(target=take).start()
print("ready", flush=True)
time.sleep(1000)
"""
LOOKS = 2_000
PAUSES = 100


def nudged(made: Rig, order: Order, now_s: float) -> bool:
    return made.runner.group.nudge(made.runner.lives[order.task.id], signal.SIGUSR1, now_s)


async def test_a_shell_that_starts_one_program_after_the_other_outlives_every_look(tmp_path: Path) -> None:
    order = an_order(*STARTS_OTHERS)
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        for look in range(LOOKS):
            assert not nudged(made, order, BLOCKS_S * look / LOOKS), "neither a shell nor `true` waits for this signal"
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        local = await made.phase(order, Phase.EMPTY)
        assert local.cause == ExitCause.STOPPED


async def test_who_blocks_the_signal_for_good_is_told_and_takes_it_when_it_likes(tmp_path: Path) -> None:
    order = an_order(sys.executable, "-c", TAKES_IT_WHEN_IT_LIKES)
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        assert not nudged(made, order, 1_000)
        assert not nudged(made, order, 1_000 + BLOCKS_S / 2)
        assert nudged(made, order, 1_000 + BLOCKS_S)
        await made.heard(order, "took SIGUSR1")
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        await made.phase(order, Phase.EMPTY)


@pytest.mark.parametrize(
    ("state", "caught", "blocked", "meant"),
    [
        ("S (sleeping)", 0x200, 0, proc.Ears(catches=True)),
        ("S (sleeping)", 0, 0x200, proc.Ears(blocks=True)),
        ("D (disk sleep)", 0, 0xFFFFFFFE7FFBFEFF, proc.Ears()),
        ("D (disk sleep)", 0x200, 0xFFFFFFFE7FFBFEFF, proc.Ears(catches=True)),
        ("S (sleeping)", 0x100, 0x400, proc.Ears()),
    ],
)
def test_what_the_kernel_tells_of_a_process_says_how_it_meets_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, caught: int, blocked: int, meant: proc.Ears
) -> None:
    monkeypatch.setattr(proc, "PROC", tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text(f"State:\t{state}\nSigBlk:\t{blocked:016x}\nSigCgt:\t{caught:016x}\n")
    assert proc.ears(7, signal.SIGUSR1) == meant
    assert proc.ears(8, signal.SIGUSR1) == proc.Ears()


async def test_a_shell_that_starts_one_program_after_the_other_stands_still_whenever_it_is_told(tmp_path: Path) -> None:
    """A program that is stopped before it is there would hold up the shell, which waits for it in the kernel."""
    order = an_order(*STARTS_OTHERS)
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        live = made.runner.lives[order.task.id]
        for _ in range(PAUSES):
            # On a machine so busy that it has no turn in that time, the agent tells it again when it looks next.
            await made.until_true(lambda: made.runner.group.stand_still(live))
            made.runner.group.tell(live, signal.SIGCONT)
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        await made.phase(order, Phase.EMPTY)
