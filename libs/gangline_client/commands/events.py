"""`gangline events`: what happens, as it happens."""

from argparse import Namespace
from contextlib import aclosing

import msgspec

from gangline_client import quantities as q
from gangline_client.console import Format
from gangline_client.job_names import find_job
from gangline_client.session import Session
from gangline_client.table import tame
from gangline_wire.requests import EventLine

ENDING_EVENTS = frozenset({"Succeeded", "Failed", "Cancelled", "TimedOut", "Lost"})


async def events(session: Session, args: Namespace) -> int:
    """Print events until Ctrl-C, the job's end, or the asked number."""
    job = await find_job(session.client, args.job) if args.job else None
    after = args.after or ("0-0" if job is not None else "")
    seen = 0
    async with aclosing(session.client.events(job=job, group=args.group, after=after)) as lines:
        async for line in lines:
            session.console.say(_line(session.console.format, line))
            seen += 1
            if seen == args.count or (job is not None and line.event in ENDING_EVENTS):
                return 0
    return 0


def _line(form: Format, line: EventLine) -> str:
    match form:
        case Format.JSON:
            return msgspec.json.encode(line).decode()
        case Format.YAML:
            import yaml

            return "---\n" + yaml.safe_dump(msgspec.to_builtins(line), sort_keys=False, allow_unicode=True).rstrip()
        case Format.NAME:
            return line.id
        case Format.TABLE | Format.WIDE:
            owner = f"{line.user}@{line.group or '/'}" if line.user else line.group
            what = f": {line.message}" if line.message else ""
            return tame(f"{q.moment(line.at)}  {line.event:<12} job {line.job} ({line.name}) {owner}{what}")
