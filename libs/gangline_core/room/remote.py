"""GPUs of other machines, used over the network: who serves them, over what, and what that costs in speed.

After rCUDA (Duato et al., HPCS 2010; Reaño et al., 2015) and Bitfusion: a program without a GPU of its own sends its
calls to servers on machines that offer theirs. A job that asks for such GPUs is a gang of clients and of servers, one
server per GPU. The offer is a device of the machine (REMOTE_GPU), and so is its network (NIC, in Mbit/s), so servers
and bandwidth are booked, charged and given back like everything else.
"""

from gangline_core.spec import JobSpec, Role

REMOTE_GPU = "remote_gpu"
"""Device of machines that offer GPUs to others: how many."""
NIC = "nic_mbps"
"""Device of machines whose network may be reserved: Mbit/s."""
PORT_FIRST = 8308
"""The server of GPU k of a machine listens on this port plus k; rCUDA's own port is the first."""
RTT_US = 50
"""Microseconds of one call over the network, where the job does not say `remote_rtt_us`."""
CALLS, BYTES, RTT = "remote_calls_per_s", "remote_mib_per_s", "remote_rtt_us"
"""Attributes of a job: GPU calls that wait for their answer, and MiB copied, per second of work on a GPU of its own."""
MILLION = 1_000_000
BITS_PER_MIB = 8 * (1 << 20)


def server_of(spec: JobSpec, role: str) -> Role | None:
    """The role that serves this one; None when it has its GPUs itself, or none."""
    return next((other for other in spec.roles if other.serves == role), None)


def slowdown_milli(spec: JobSpec) -> int:
    """How much longer a second of work takes over the network, in thousandths of it: 1000 is no longer at all.

    calls per second x round trip + bytes per second / bandwidth, on top of the work itself.
    """
    worst = 1000
    for role in spec.roles:
        if server_of(spec, role.name) is None:
            continue
        mbps = max(1, role.resources.devices.get(NIC, 1))
        calls, mib = _number(spec, CALLS, 0), _number(spec, BYTES, 0)
        waits = calls * _number(spec, RTT, RTT_US) / MILLION
        copies = mib * BITS_PER_MIB / (mbps * MILLION)
        worst = max(worst, round(1000 * (1 + waits + copies)))
    return worst


def _number(spec: JobSpec, name: str, otherwise: float) -> float:
    value = spec.attributes.get(name, otherwise)
    return max(0.0, float(value)) if isinstance(value, int | float) else float(otherwise)
