"""Beside the house: the HTTP SDK (`Client` async, `SyncClient` blocking) and the `gangline` command."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline_client.client import Client
    from gangline_client.errors import ClientError, ProblemError, SettingsError, UnreachableError
    from gangline_client.sync import SyncClient

__all__ = ["Client", "ClientError", "ProblemError", "SettingsError", "SyncClient", "UnreachableError"]

_HOMES = {"Client": "client", "SyncClient": "sync"}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, so that `gangline --help` does not wait for an HTTP client."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"gangline_client.{_HOMES.get(name, 'errors')}"), name)
