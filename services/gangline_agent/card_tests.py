"""Cards that failed are tested by a program of the administrator's, again and again, before they are trusted anew.

Without one (`gpu_test` is empty) the driver's word is all there is. With one, a card that the log calls failed and that
nobody uses is tested at once and then each `gpu_test_every_s`; until a test ended well, the card's samples say what is
wrong with it, so it does not come back by time alone.
"""

import asyncio
import logging
import os
import shlex
from collections.abc import Callable, Collection

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Gpu, Node
from gangline_core.state import State
from gangline_kit.clock import Clock
from gangline_wire.samples import GpuSample

log = logging.getLogger(__name__)

WAITS = "waits for its test"
TEST_S_MAX = 900.0
"""A test that takes longer has failed."""
LOOK_S = 1.0
WORDS_MAX = 200
"""Characters of what a test said that are shown."""


class Tried(Struct):
    """What tests of one card came to since it failed."""

    problem: str = WAITS
    """Empty once a test ended well."""
    at_s: float | None = None


class CardTests:
    """The failed cards of this machine and their tests."""

    def __init__(self, command: str, *, every_s: float, monotonic_s: Callable[[], float]) -> None:
        """`command` has {index} and {uuid} where the card's are to stand; it is run without a shell."""
        self._words = shlex.split(command)
        self._every_s = every_s
        self._monotonic_s = monotonic_s
        self._tried: dict[int, Tried] = {}
        self._due: dict[int, Gpu] = {}

    def look(self, state: State, node: Node | None, samples: Collection[GpuSample]) -> None:
        """See which cards the log calls failed, and which of them could be tested now."""
        if not self._words or node is None:
            return
        failed = {gpu.index: gpu for gpu in node.gpus if not gpu.healthy}
        self._tried = {index: self._tried.get(index) or Tried() for index in failed}
        tasks = (state.kept.tasks[name] for name in state.node_tasks[node.id])
        used = {share.index for task in tasks for share in task.gpus}
        silent = {sample.index for sample in samples if sample.problem}
        self._due = {index: gpu for index, gpu in failed.items() if index not in used | silent and self._is_due(index)}

    def marked(self, sample: GpuSample) -> GpuSample:
        """The sample with what its card's test says, unless the driver says worse."""
        tried = self._tried.get(sample.index)
        return sample if sample.problem or tried is None else replace(sample, problem=tried.problem)

    async def run_for_ever(self, clock: Clock, number_of: Callable[[int], int]) -> None:
        """Test one card after the other as they come due; `number_of` is how the driver calls a card."""
        while True:
            for index, gpu in sorted(self._due.items()):
                await self.test(gpu, number_of(index))
            await clock.sleep(LOOK_S)

    async def test(self, gpu: Gpu, number: int) -> None:
        """Run the program on one card, and remember what it came to."""
        self._due.pop(gpu.index, None)
        said = await _run([word.replace("{index}", str(number)).replace("{uuid}", gpu.uuid) for word in self._words])
        tried = self._tried.get(gpu.index)
        if tried is not None:
            tried.problem, tried.at_s = said, self._monotonic_s()
        log.warning("the test of GPU %d %s", gpu.index, f"failed: {said}" if said else "ended well")

    def _is_due(self, index: int) -> bool:
        tried = self._tried[index]
        if not tried.problem:
            return False
        return tried.at_s is None or self._monotonic_s() - tried.at_s >= self._every_s


async def _run(words: list[str]) -> str:
    """Why the test failed; empty when it ended well."""
    pipe = asyncio.subprocess.PIPE
    paths = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=asyncio.subprocess.STDOUT, env=paths
        )
    except OSError as error:
        return f"its test cannot be run: {error}"
    try:
        async with asyncio.timeout(TEST_S_MAX):
            output, _ = await process.communicate()
    except TimeoutError:
        return f"its test took more than {TEST_S_MAX:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    last = output.decode(errors="replace").strip().rpartition("\n")[2][:WORDS_MAX]
    return "" if process.returncode == 0 else f"its test ended with {process.returncode}: {last}"
