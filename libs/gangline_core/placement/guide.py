"""What an administrator needs to know of each placer to choose one."""

from msgspec import Struct


class Guide(Struct, frozen=True):
    """One placer: where it comes from and what it is good for."""

    source: str
    use: str


GUIDE: dict[str, Guide] = {
    "default": Guide("Gangline", "Always, unless one of the others is wanted for a reason."),
    "best_fit": Guide(
        "Gangline", "The fullest node that holds the job; needs no knowledge of what is usually asked for."
    ),
    "topology": Guide(
        "Gangline", "The smallest domain for every job, also for those that do not ask for it; then best fit."
    ),
    "spread": Guide("Gangline", "Services that should survive a node: as many and as empty nodes as possible."),
    "cells": Guide("HiveD (OSDI 2020)", "Groups that are owed whole parts of the topology at any moment; see below."),
    "buddy": Guide("HiveD (OSDI 2020), one tenant", "Jobs of 1, 2, 4, 8 GPUs on machines with islands and sockets."),
    "fgd": Guide("FGD (ATC 2023)", "Many shares of GPUs and a mix of tasks that hardly changes."),
    "first_fit": Guide(
        "Textbook", "The first node of a fixed permutation; cheap, and strong where all nodes are alike."
    ),
    "gpushare": Guide(
        "gpushare-scheduler-extender", "Shares by GPU memory: the card with least free memory that suffices."
    ),
    "gpu_admission": Guide("tkestack/gpu-admission", "Shares by compute and memory: fewest free cores first."),
    "gpu_manager": Guide("tkestack/gpu-manager", "Machines without NVLink: cards by PCIe switch and socket."),
    "allocatable_least": Guide(
        "scheduler-plugins, NodeResourcesAllocatable", "Small machines first, large ones kept free."
    ),
    "allocatable_most": Guide("scheduler-plugins, NodeResourcesAllocatable", "Large machines first."),
    "numa_least": Guide("scheduler-plugins, NodeResourceTopology", "One socket only, the emptiest."),
    "numa_most": Guide("scheduler-plugins, NodeResourceTopology", "One socket only, the fullest that suffices."),
    "numa_balanced": Guide("scheduler-plugins, NodeResourceTopology", "One socket only, CPU and GPUs used up evenly."),
    "numa_fewest": Guide("scheduler-plugins, NodeResourceTopology", "As few sockets as possible, several if need be."),
    "target_load": Guide("scheduler-plugins, Trimaran", "CPU work by measured load: nodes up to 40 %, then others."),
    "load_risk": Guide("scheduler-plugins, Trimaran", "CPU work away from nodes that are busy or restless."),
    "balanced_network": Guide("liang, BN", "Nodes with a countable device `network_mbit`: even network load."),
    "balanced_all": Guide("liang, CMDN", "The busiest node below 80 % in CPU, memory, `disk_gib` and `network_mbit`."),
    "metric_score": Guide("Yoda", "Cards with most memory, on nodes of which least is spoken for."),
    "bisection": Guide(
        "Amaral et al. (SC 2017)",
        "Communication, quiet sockets and few left-over pieces, weighed together; may wait for better.",
    ),
    "min_cost_flow": Guide(
        "Firmament (OSDI 2016)", "Many single-GPU jobs and gangs: all that wait flow together, spread evenly."
    ),
}
"""By the name in a policy."""
