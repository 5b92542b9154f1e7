"""`gangline context`: name platforms in the contexts file and choose one; asks nobody."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace

from gangline_client.console import Console
from gangline_client.errors import InputError, UsageError
from gangline_client.settings import Context, ContextsFile, contexts_path, read_contexts, write_contexts
from gangline_client.table import Column

COLUMNS = (Column(""), Column("NAME"), Column("URL"), Column("TOKEN"), Column("GROUP"), Column("POOL"))


def context(console: Console, args: Namespace, environ: Mapping[str, str]) -> int:
    """Do the act; without one, list."""
    path = contexts_path(environ)
    file = read_contexts(path)
    match args.act:
        case "use":
            _known(file, args.name)
            write_contexts(path, replace(file, current=args.name))
            console.say(f"Commands now use context {args.name}.")
        case "set":
            changed = _with(file, args)
            write_contexts(path, changed)
            use = (
                "commands use it"
                if changed.current == args.name
                else f"choose it with `gangline context use {args.name}`"
            )
            console.say(f"Context {args.name} is written to {path}; {use}.")
        case "remove":
            _known(file, args.name)
            rest = {name: each for name, each in file.contexts.items() if name != args.name}
            write_contexts(path, ContextsFile(current="" if file.current == args.name else file.current, contexts=rest))
            console.say(f"Context {args.name} is forgotten.")
        case _:
            _list(console, file)
    return 0


def _with(file: ContextsFile, args: Namespace) -> ContextsFile:
    """The file with the context made or changed; the first one becomes the one in use."""
    token = sys.stdin.readline().strip() if args.token == "-" else args.token
    given = {"url": args.url, "token": token, "group": args.group, "pool": args.pool}
    old = file.contexts.get(args.name, Context())
    new = replace(old, **{name: value for name, value in given.items() if value is not None})
    if not new.url:
        raise UsageError("a context needs an address", next_step="Add --url http://host:port.")
    return ContextsFile(current=file.current or args.name, contexts={**file.contexts, args.name: new})


def _known(file: ContextsFile, name: str) -> None:
    if name not in file.contexts:
        known = ", ".join(sorted(file.contexts)) or "none"
        raise InputError(f"there is no context {name}; known: {known}")


def _list(console: Console, file: ContextsFile) -> None:
    if not console.is_for_people:
        for name in sorted(file.contexts):
            console.say(name)
        return
    if not file.contexts:
        console.note("No contexts. Make one with `gangline context set NAME --url URL --token TOKEN`.")
        return
    rows = [
        ["*" if name == file.current else "", name, each.url, "set" if each.token else "-", each.group, each.pool]
        for name, each in sorted(file.contexts.items())
    ]
    console.table(COLUMNS, rows)
