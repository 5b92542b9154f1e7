"""Where the API server is and how we prove who we are: kubernetes-asyncio reads it, and reads it again while we run."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config
from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
READ_S_MAX = 30.0
"""A program that makes tokens gets this long."""
BEARER = "BearerToken"
"""Under this name the library keeps the Authorization header."""

STUMBLES = (ConfigException, OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, AssertionError)
"""What the library raises over a kubeconfig that is not there or not whole."""

Renew = Callable[[Configuration, bool], Awaitable[None]]


class CredentialsError(Exception):
    """There is no way to the cluster; the message says what is missing."""


class Credentials:
    """One server and one identity; whatever may change while we run is read again by `renew`."""

    def __init__(self, configuration: Configuration, renew: Renew) -> None:
        """`renew` brings the configuration up to date; its second argument says that what it holds was refused."""
        self.configuration = configuration
        self._renew = renew

    async def renew(self, *, refused: bool = False) -> None:
        """Read tokens anew: kubelets and programs replace them.

        Raises:
            CredentialsError: the file or the program gives none.
        """
        try:
            async with asyncio.timeout(READ_S_MAX):
                await self._renew(self.configuration, refused)
        except (*STUMBLES, TimeoutError) as error:
            raise CredentialsError(f"the credentials cannot be read: {error!r}") from error
        if BEARER in self.configuration.api_key:
            # A token file may end in a newline, which no header may hold.
            self.configuration.api_key[BEARER] = self.configuration.api_key[BEARER].strip()

    @property
    def authorization(self) -> str:
        """The Authorization header as of now."""
        return str(self.configuration.api_key.get(BEARER, ""))


def find(kubeconfig: str, context: str = "") -> Awaitable[Credentials]:
    """From the file that is named, else from the pod's service account; behind the proxy the environment names.

    Raises:
        CredentialsError: neither is there, or the file does not hold what it names.
    """
    return _behind_proxy(from_file(Path(kubeconfig).expanduser(), context) if kubeconfig else from_pod())


async def _behind_proxy(finding: Awaitable[Credentials]) -> Credentials:
    found = await finding
    found.configuration.proxy = found.configuration.proxy or proxy_of(found.configuration.host)
    return found


def proxy_of(server: str) -> str | None:
    """The proxy that the environment names for this server; asked once, as it cannot change while we run."""
    parts = urlsplit(server)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


async def from_pod(folder: Path = SERVICE_ACCOUNT) -> Credentials:
    """The service account of the pod we run in.

    Raises:
        CredentialsError: we run in no pod.
    """
    loader = InClusterConfigLoader(str(folder / "token"), str(folder / "ca.crt"))

    async def renew(configuration: Configuration, refused: bool) -> None:
        loader.load_and_set(configuration)

    found = Credentials(Configuration(), renew)
    try:
        await found.renew()
    except CredentialsError as error:
        missing = "no cluster: not in a pod with a service account; set GANGLINE_KUBERNETES_KUBECONFIG to a kubeconfig"
        raise CredentialsError(f"{missing} ({error.__cause__})") from error
    return found


async def from_file(path: Path, context: str = "") -> Credentials:
    """A context of a kubeconfig, with whatever way of proving an identity the library knows.

    Raises:
        CredentialsError: the file or something it names is missing.
    """
    configuration = Configuration()
    try:
        async with asyncio.timeout(READ_S_MAX):
            # What a provider of identities hands out is kept in memory: the file may be read-only.
            loader = await load_kube_config(
                str(path), context=context or None, client_configuration=configuration, persist_config=False
            )
    except (*STUMBLES, TimeoutError) as error:
        raise CredentialsError(f"kubeconfig {path}: {error!r}") from error

    async def renew(configuration: Configuration, refused: bool) -> None:
        if refused:
            # A program's token counts as good until its time is over, whatever the server says.
            vars(loader).pop("exec_plugin_expiry", None)
        await loader.load_and_set(configuration)

    found = Credentials(configuration, renew)
    await found.renew()
    return found


def at(server: str) -> Credentials:
    """A server that asks for nobody's name, such as a proxy on this machine."""

    async def renew(configuration: Configuration, refused: bool) -> None:
        """There is nothing to read."""

    return Credentials(Configuration(host=server), renew)
