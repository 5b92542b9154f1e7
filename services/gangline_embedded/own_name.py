"""Under which name this machine works: the one it had, for as long as tasks run here that were started under it.

A host's name changes, and `gangline up` stops and starts while its tasks run on. Under another name nobody would find
them: their node would be lost, and each would begin a second time beside itself.
"""

from msgspec.structs import replace

from gangline_agent.at_work import at_work
from gangline_core.counted import counted
from gangline_embedded.config import PlatformConfig
from gangline_embedded.rooms import SIMULATED, agents_of
from gangline_kit.errors import PermanentError

TASKS_SHOWN = 3


def under_the_name_of_its_tasks(config: PlatformConfig) -> PlatformConfig:
    """The same, under the earlier name where tasks run that were started under it.

    Raises:
        PermanentError: they would be lost sight of: another name was asked for, or no node of this machine at all, or
            they were started under several names.
    """
    running = {name: tasks for name, tasks in at_work(agents_of(config.data_dir)).items() if name != SIMULATED}
    others = [name for name in running if name != config.local_name or not config.local_node]
    if not others:
        return config
    if config.local_node and not config.local_name_is_chosen and len(running) == 1:
        return replace(config, local_name=others[0])
    name, tasks = others[0], running[others[0]]
    shown = ", ".join((*tasks[:TASKS_SHOWN], *(["..."] if len(tasks) > TASKS_SHOWN else [])))
    raise PermanentError(
        f"{counted(len(tasks), 'task')} of node {name} would go on unseen and begin a second time elsewhere: {shown}; "
        f"start with `--name {name}` until they have ended, or cancel them there"
    )
