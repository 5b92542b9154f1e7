"""`gangline status`, `whoami` and `version`: what is there, who you are, what runs."""

from argparse import Namespace
from importlib import metadata

import msgspec

from gangline_client import quantities as q
from gangline_client.errors import ClientError
from gangline_client.session import Session, emit, repeat, watch_interval
from gangline_client.table import Column, bar
from gangline_core.counted import counted
from gangline_wire import views as v

GPU_COLUMNS = (
    Column("GPU"),
    Column("USED", right=True),
    Column("FREE", right=True),
    Column("TOTAL", right=True),
    Column("SICK", right=True),
    Column(""),
)


class Versions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Versions on both sides."""

    client: str
    platform: v.VersionView | None = None


async def status(session: Session, args: Namespace) -> int:
    """Totals of the cluster."""

    async def draw() -> None:
        view = await session.client.cluster()
        emit(session.console, view, names=[pool.name for pool in view.pools], people=lambda: _tell(session, view))

    await repeat(session, every_s=watch_interval(args), draw=draw)
    return 0


def _tell(session: Session, view: v.ClusterView) -> None:
    console = session.console
    console.fact("Platform", f"{session.settings.url} ({session.settings.source})")
    console.fact("Nodes", f"{view.nodes_ready} of {view.nodes} ready")
    console.fact("Jobs", ", ".join(f"{count} {state}" for state, count in sorted(view.jobs.items()) if count) or "none")
    console.fact(
        "Pools", ", ".join(f"{pool.name} ({counted(view.rounds.get(pool.name, 0), 'round')})" for pool in view.pools)
    )
    console.fact("Log", f"sequence {view.seq}, {q.moment(view.at)}")
    if view.gpus:
        console.say()
        rows = [
            [
                each.model,
                q.gpus(each.used_milli),
                q.gpus(each.free_milli),
                str(each.total),
                str(each.sick),
                bar(each.used_milli, each.total * q.GPU_MILLI, cells=20),
            ]
            for each in view.gpus
        ]
        console.table(GPU_COLUMNS, rows)


async def whoami(session: Session, args: Namespace) -> int:
    """What the token in use allows."""
    view = await session.client.whoami()

    def people() -> None:
        groups = ", ".join(group or "/" for group in view.groups) or "all"
        session.console.say(f"{view.user}, role {view.role}, groups: {groups}, token {view.name}")
        session.console.fact("Platform", f"{session.settings.url} ({session.settings.source})")
        session.console.fact("Expires", q.moment(view.expires_ms) if view.expires_ms else "never")

    emit(session.console, view, names=[view.user], people=people)
    return 0


async def version(session: Session, args: Namespace) -> int:
    """Both versions; a platform that does not answer is no failure of this question."""
    platform, trouble = None, ""
    if not args.client:
        try:
            platform = await session.client.version()
        except ClientError as error:
            trouble = str(error)
    view = Versions(client=own_version(), platform=platform)

    def people() -> None:
        session.console.say(f"gangline {view.client}")
        if platform is not None:
            session.console.say(f"platform {platform.version} (API {platform.api}) at {session.settings.url}")
        elif trouble:
            session.console.note(f"platform: {trouble}")

    emit(session.console, view, names=[view.client], people=people)
    return 0


def own_version() -> str:
    """The version of this distribution, or "unknown" when it runs from a bare source folder."""
    try:
        return metadata.version("gangline")
    except metadata.PackageNotFoundError:
        return "unknown"
