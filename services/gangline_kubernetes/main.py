"""Composition root of the Kubernetes service."""

from gangline_kit.config import load
from gangline_kit.errors import PermanentError
from gangline_kit.service import Site, run_service
from gangline_kubernetes.app import run
from gangline_kubernetes.config import Config
from gangline_kubernetes.credentials import CredentialsError, find
from gangline_kubernetes.http import HttpTransport


def main() -> None:
    """Serve one cluster until a signal comes."""

    async def service(site: Site) -> None:
        config = load(Config, "kubernetes")
        try:
            credentials = await find(config.kubeconfig, config.context)
        except CredentialsError as error:
            raise PermanentError(str(error)) from error
        async with HttpTransport(credentials, site.clock) as transport:
            await run(site, config, transport)

    run_service("kubernetes", service)


if __name__ == "__main__":
    main()
