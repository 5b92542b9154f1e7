"""Composition root of the Kubernetes service."""

from gangline_kit.config import load
from gangline_kit.service import Site, run_service
from gangline_kubernetes.app import run
from gangline_kubernetes.config import Config


def main() -> None:
    """Serve one cluster until a signal comes."""

    async def service(site: Site) -> None:
        await run(site, load(Config, "kubernetes"))

    run_service("kubernetes", service)


if __name__ == "__main__":
    main()
