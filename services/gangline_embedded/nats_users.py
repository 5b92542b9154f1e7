"""Users of the private nats-server and the fewest subjects each needs."""

from gangline_kit.nats_server import NatsUser
from gangline_wire import subjects
from gangline_wire.streams import LEASES

PLATFORM_USER = "platform"
"""The services of the platform itself."""
AGENT_USER = "agent"
"""Agents of other machines: they read the log, write their own lanes, samples and output, and nothing else."""


def agent_user(password: str) -> NatsUser:
    """The user whose password is the token of `gangline agent --token`."""
    return NatsUser(
        name=AGENT_USER,
        password=password,
        publish=(
            f"{subjects.LOG}.agent.>",
            f"{subjects.SAMPLES}.>",
            f"{subjects.OUTPUT}.>",
            f"$KV.{LEASES.name}.>",
            "$JS.API.INFO",
            "$JS.API.STREAM.INFO.*",
            "$JS.API.STREAM.NAMES",
            "$JS.API.STREAM.MSG.GET.*",
            "$JS.API.DIRECT.GET.>",
            "$JS.API.CONSUMER.>",
            "$JS.ACK.>",
            "$JS.FC.>",
        ),
        subscribe=(f"_INBOX.{AGENT_USER}.>",),
    )
