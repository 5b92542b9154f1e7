"""Users of the NATS server, each with the fewest rights its service needs."""

from gangline_kit.nats_server import NatsUser
from gangline_wire.rights import READER, agent_rights, agent_user_name, reader_rights, rights

PLATFORM_USER = "platform"
"""The services of the embedded platform itself, which share a process."""
AGENT_USER = "agent"
"""Agents of other machines: they read the log, write their own lanes, samples and output, and nothing else."""


def service_user(service: str, *, password: str) -> NatsUser:
    """The user of a service with exactly its rights."""
    allowed = rights(service)
    return NatsUser(name=service, password=password, publish=allowed.publish, subscribe=allowed.subscribe)


def one_agent_user(agent: str, *, password: str) -> NatsUser:
    """The user of one agent alone, which writes the lane of no other."""
    allowed = agent_rights(agent)
    return NatsUser(
        name=agent_user_name(agent), password=password, publish=allowed.publish, subscribe=allowed.subscribe
    )


def reader_user(password: str) -> NatsUser:
    """The user of programs of others that only read the public feed."""
    allowed = reader_rights()
    return NatsUser(name=READER, password=password, publish=allowed.publish, subscribe=allowed.subscribe)


def agent_user(password: str) -> NatsUser:
    """The user whose password is the token of `gangline agent --token`."""
    return service_user(AGENT_USER, password=password)
