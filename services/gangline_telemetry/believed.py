"""What of an agent's samples is believed: what is said of its own machines and of the tasks there.

Samples are plain messages: whoever may publish any could tell of machines of others, call their cards sick, or keep
lost ones alive. An agent's own bus user may publish on its agent's subject alone, so the subject says who speaks.
"""

from msgspec.structs import replace

from gangline_core.fold.own_nodes import lane_of
from gangline_core.ids import NodeId, TaskId
from gangline_core.state import State
from gangline_wire import subjects
from gangline_wire.samples import JobReport, Samples


def believed(samples: Samples, subject: str, state: State) -> Samples | None:
    """The samples without what its agent has no say in; None when they are not of the agent of this subject."""
    agent = samples.agent
    if subject != subjects.samples(agent):
        return None
    nodes = tuple(sample for sample in samples.nodes if _is_own(state, agent, sample.node))
    reports = tuple(report for report in samples.reports if _is_of_own_task(state, agent, report))
    beats = {task: at for task, at in samples.beats.items() if _runs_there(state, agent, task)}
    stuck = tuple(task for task in samples.stuck if _runs_there(state, agent, task))
    return replace(samples, nodes=nodes, reports=reports, beats=beats, stuck=stuck)


def _is_own(state: State, agent: str, name: str) -> bool:
    """True for nodes that the agent carries, nodes of a cluster that it stands on, and nodes that nobody knows yet."""
    node = state.kept.nodes.get(NodeId(name))
    if node is None or node.agent == agent:
        return True
    return lane_of(node.agent) == node.agent and name == agent


def _is_of_own_task(state: State, agent: str, report: JobReport) -> bool:
    """True for the word of a task that runs there, of its own job and attempt: no other one speaks for a job."""
    task = state.kept.tasks.get(TaskId(report.task))
    is_its_own = task is not None and (task.job, task.attempt) == (report.job, report.attempt)
    return is_its_own and _runs_there(state, agent, report.task)


def _runs_there(state: State, agent: str, name: str) -> bool:
    task = state.kept.tasks.get(TaskId(name))
    return task is None or _is_own(state, agent, task.node)
