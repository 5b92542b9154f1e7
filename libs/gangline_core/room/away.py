"""Whether anybody speaks for a machine: where nobody does, nothing begins, and what runs is left alone."""

from gangline_core.cluster import Node


def is_unspoken_for(node: Node) -> bool:
    """True while telemetry keeps new work away since nobody speaks for the machine."""
    return bool(node.quarantine) and node.quarantine == nobody_speaks(node.agent)


def nobody_speaks(agent: str) -> str:
    """What keeps new work from machines whose agent, or whose cluster's service, says nothing any more."""
    _, dot, cluster = agent.partition("kubernetes.")
    if dot:
        return f"the service of {cluster}, its Kubernetes cluster, is away"
    return f"agent {agent} is silent, and may not have ended yet what runs there"
