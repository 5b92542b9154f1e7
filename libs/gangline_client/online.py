"""How a verb that needs the platform is run: settings, client, session, and the names that completion asks for."""

import asyncio
import os
from argparse import Namespace
from collections.abc import Mapping
from importlib import import_module

from gangline_client.client import Client
from gangline_client.console import Console
from gangline_client.doors import Doors
from gangline_client.errors import ClientError, InputError, SettingsError
from gangline_client.paths import JobQuery
from gangline_client.retry import Retry
from gangline_client.session import Session
from gangline_client.settings import Settings, find_settings
from gangline_client.verbs import Verb

COMPLETION_S_MAX = 1.5
COMPLETION_NAMES_MAX = 100


async def run_online(verb: Verb, args: Namespace, *, environ: Mapping[str, str], console: Console, doors: Doors) -> int:
    """Do the verb; its exit code.

    Raises:
        ClientError: it cannot be done.
    """
    settings = _settings(verb, args, environ)
    async with Client(settings.url, settings.token, sleep=doors.sleep, make_key=doors.new_key) as client:
        session = Session(
            client=client,
            console=console,
            settings=settings,
            environ=environ,
            now_ms=doors.now_ms,
            sleep=doors.sleep,
            folder=_folder(),
        )
        home = import_module(f"gangline_client.commands.{verb.home}")
        return int(await getattr(home, verb.function)(session, args))


def _folder() -> str:
    """Where the user stands.

    Raises:
        InputError: nowhere: somebody removed the folder meanwhile.
    """
    try:
        return os.getcwd()
    except OSError as error:
        raise InputError("the folder you are in is gone", next_step="Change to one that is there.") from error


def look_up_names(kind: str, environ: Mapping[str, str]) -> list[str]:
    """Jobs or nodes to complete a word with; nothing when the platform does not answer at once."""
    try:
        settings = find_settings(environ)
        return asyncio.run(_names(kind, settings))
    except (ClientError, TimeoutError):
        return []


async def _names(kind: str, settings: Settings) -> list[str]:
    client = Client(settings.url, settings.token, retry=Retry(attempts=1))
    async with asyncio.timeout(COMPLETION_S_MAX), client:
        if kind == "nodes":
            return [node.id for node in await client.nodes()]
        query = JobQuery(newest_first=True)
        return [str(job.id) async for job in client.jobs(query, limit=COMPLETION_NAMES_MAX)]


def _settings(verb: Verb, args: Namespace, environ: Mapping[str, str]) -> Settings:
    if (verb.name == "version" and args.client) or (verb.name == "policy" and getattr(args, "offline", False)):
        return Settings(url="http://localhost", token="")
    try:
        return find_settings(environ, url=args.url, token=args.token, context=args.context)
    except SettingsError as error:
        if verb.name == "policy" and args.act == "lint":
            error.next_step += " Or check it by itself: `gangline policy lint --offline`."
        raise
