"""Whether anybody speaks for the cluster of a machine: while its service is away nothing there begins or is ended."""

from gangline_core.cluster import Node


def is_unspoken_for(node: Node) -> bool:
    """True while telemetry keeps new work away since nobody speaks for the machine's cluster."""
    return node.is_watched and node.quarantine == nobody_speaks(node.agent)


def nobody_speaks(agent: str) -> str:
    """What keeps new work from the machines of a cluster whose service says nothing any more."""
    return f"the service of {agent.removeprefix('kubernetes.')}, its Kubernetes cluster, is away"
