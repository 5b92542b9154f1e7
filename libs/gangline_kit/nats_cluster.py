"""Several private nats-servers that keep the same streams: one may fail and nobody notices, for tests and trials."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

from gangline_kit.clock import Clock, SystemClock
from gangline_kit.nats_server import Cluster, NatsServer, NatsUser

SIZE = 3


class NatsCluster:
    """Servers on loopback, each with its own files; streams made with `replicas` live on so many of them."""

    def __init__(
        self,
        directory: Path,
        *,
        size: int = SIZE,
        sync_always: bool = True,
        users: tuple[NatsUser, ...] = (),
        ports: Sequence[int] = (),
        clock: Clock | None = None,
    ) -> None:
        """Nothing runs before `start`. `ports` are two for each server, for the others and for clients: as good as
        any are those that are free now, but nobody keeps them free until a server is there, or there again."""
        among = list(ports[:size]) or free_ports(size)
        outside = list(ports[size:]) or [-1] * size
        self.servers = [
            NatsServer(
                directory / f"server-{k}",
                port=outside[k],
                sync_always=sync_always,
                users=users,
                clock=clock or SystemClock(),
                cluster=Cluster(name=f"gangline-{k}", port=among[k], routes=tuple(among)),
            )
            for k in range(size)
        ]

    @property
    def url(self) -> str:
        """All of them, for clients that go to another one when theirs is gone."""
        return ",".join(server.url for server in self.servers)

    async def start(self) -> None:
        """Start all; errors as `NatsServer.start`. They find each other within seconds."""
        async with asyncio.TaskGroup() as group:
            for server in self.servers:
                group.create_task(server.start())

    async def stop(self) -> None:
        """End all."""
        async with asyncio.TaskGroup() as group:
            for server in self.servers:
                group.create_task(server.stop())


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
