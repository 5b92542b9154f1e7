"""What an agent reads from its environment, once, at start."""

import socket

from msgspec import Struct, field


class Config(Struct, frozen=True, kw_only=True):
    """Settings of one agent (GANGLINE_AGENT_*). With `simulate` it carries simulated nodes instead of its machine."""

    name: str = field(default_factory=lambda: socket.gethostname() or "localhost")
    """Unique in the cluster; also the name of the machine's node."""
    pool: str = "default"
    data_dir: str = ""
    """Folder for the journal and output of tasks, one per agent; empty is agent/<name> in the user's data folder."""
    address: str = ""
    """Where other members of a gang reach this machine; empty finds out by the way to the message bus."""
    labels: str = ""
    """Labels of the node, such as "topology.gangline.dev/rack=r7,zone=b"."""
    topology_file: str = ""
    """File of the administrator that says where machines stand (racks, blocks, any level) and how their GPUs hang
    together (see gangline_agent.topology_file); what it says goes before the driver, `labels` before it."""
    simulate: str = ""
    """Nodes to simulate: machines in short such as 4x8xH100, or a file with nodes (see gangline_agent.fleet)."""
    simulate_nodes_max: int = 0
    """Take this many nodes of the file, spread over all of it; 0 takes all."""
    rack_nodes: int = 16
    """Simulated nodes per rack."""
    block_racks: int = 8
    """Simulated racks per block."""
    nic_mbps: int = 0
    """Mbit/s of this machine's network that jobs may reserve; 0 offers none."""
    remote_gpus: bool = False
    """This machine's GPUs may be served to programs on other machines (rCUDA and its like), which needs nic_mbps."""
    gpu_test: str = ""
    """A program that tests a card that failed before it is used again, such as "dcgmi diag -r 1 -i {index}"; it may
    name {index} and {uuid}. Run without a shell while nobody uses the card; empty tests none."""
    gpu_test_every_s: float = 600.0
    """A card that did not pass is tested again after so long."""
    watch_only: bool = False
    """Only look at this machine, which a Kubernetes cluster has as a node of this agent's name: nothing starts here."""
    speed: float = 1.0
    """How much faster than real time simulated tasks run; time limits and deadlines are by the clock."""
    bus_lost_s: float = 20.0
    """Cut off from the bus for longer, the agent stops its tasks; the node counts as lost 10 s later at soonest."""
    mute_s: float = 600.0
    """Without being able to write its lane for longer (nothing can be stored), the agent acts as if it were cut off."""
    orphan_s: float = 18.0
    """Without any agent for longer, supervisors stop their task themselves: it starts elsewhere soon. 0: never. A node
    whose agent has more patience than with the bus is lost so much later."""
    gather_ms: int = 2
    """While facts come fast, they are gathered this long into one message."""
    output_head_mib: int = 16
    """Of each task's output so much is always kept from its beginning,"""
    output_tail_mib: int = 4
    """and at least so much from its end."""
    output_kib_per_s: int = 64
    """Beyond the beginning a running task's output is shown at this rate at most; a faster task shows gaps."""
