"""`gangline policy lint|diff|apply|show --file`: all settings as one page, compared before anything changes."""

import sys
from argparse import Namespace
from pathlib import Path

from gangline_client.errors import InputError, ProblemError, UsageError
from gangline_client.page_lines import Page, read_page
from gangline_client.session import Session, emit, note_doubts
from gangline_client.setting_words import value_words
from gangline_client.table import Paint
from gangline_wire import views as v

STANDARD_INPUT = "-"
SUFFIXES = (".yaml", ".yml", ".json")
BYTES_MAX = 4 << 20


def is_file(text: str) -> bool:
    """True for what names a policy file rather than being a formula."""
    return text == STANDARD_INPUT or text.endswith(SUFFIXES)


async def show_file(session: Session) -> int:
    """Print all settings as a policy file."""
    view = await session.client.settings()

    def people() -> None:
        import yaml

        session.console.say(yaml.safe_dump(view.settings, sort_keys=False, allow_unicode=True).rstrip())

    emit(session.console, view, names=[], people=people)
    return 0


async def lint_file(session: Session, name: str) -> int:
    """Check a policy file against itself and the platform; nothing changes."""
    page = read_file(name)
    view = await _put(session, page, dry_run=True)
    emit(session.console, view, names=[], people=lambda: session.console.say(f"{page.place} is fine."))
    note_doubts(session, view.doubts)
    return 0


async def diff_file(session: Session, name: str) -> int:
    """Show what a policy file would change; nothing changes."""
    view = await _put(session, read_file(name), dry_run=True)
    emit(session.console, view, names=[change.name for change in view.changes], people=lambda: _tell(session, view))
    note_doubts(session, view.doubts)
    return 0


async def apply_file(session: Session, args: Namespace) -> int:
    """Make all settings as the file says; what is shown is what happens, or nothing does."""
    page = read_file(args.file)
    view = await _put(session, page, dry_run=True)
    note_doubts(session, view.doubts)
    if args.dry_run or not view.changes:
        emit(session.console, view, names=[change.name for change in view.changes], people=lambda: _tell(session, view))
        return 0
    if not args.yes:
        _tell(session, view)
        _confirm(session)
    # Only if nobody changed anything since the changes were shown.
    done = await _put(session, page, dry_run=False, why=args.why, version=view.version)
    count = len(done.changes)
    said = f"Applied {count} change{'s' if count != 1 else ''}."
    emit(session.console, done, names=[c.name for c in done.changes], people=lambda: session.console.say(said))
    return 0


def read_file(name: str) -> Page:
    """The page in a file, or on standard input.

    Raises:
        InputError: it cannot be read.
    """
    if name == STANDARD_INPUT:
        return read_page(sys.stdin.read(), "standard input")
    path = Path(name)
    try:
        if path.stat().st_size > BYTES_MAX:
            raise InputError(f"{path} is larger than {BYTES_MAX} bytes; that is no policy file")
        return read_page(path.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read: {cause}") from error


async def _put(
    session: Session, page: Page, *, dry_run: bool, why: str = "", version: int | None = None
) -> v.AppliedView:
    try:
        return await session.client.apply_settings(page.document, dry_run=dry_run, why=why, version=version)
    except ProblemError as error:
        errors = error.problem.errors
        if not errors:
            raise
        for one in errors:
            session.console.note(f"{page.place}:{page.line(one.path)}: {one.path}: {one.message}")
        raise InputError(f"{page.place} is refused; nothing was changed") from error


def _tell(session: Session, view: v.AppliedView) -> None:
    console = session.console
    if not view.changes:
        console.say("Nothing changes.")
    for change in view.changes:
        name = f"{change.kind} {change.name}".strip()
        field = f" {change.field}" if change.field else ""
        before, after = (value_words(change.field or change.kind, value) for value in (change.before, change.after))
        paint = Paint.GOOD if change.before is None else Paint.WAIT
        is_made = not field and before == after
        console.say(console.paint(f"{name}: new" if is_made else f"{name}{field}: {before} -> {after}", paint))
    if view.unnamed:
        console.note(f"Not in the file, and left as it is: {', '.join(view.unnamed)}.")


def _confirm(session: Session) -> None:
    """Ask; without a terminal to ask on, the user must say --yes."""
    if not (sys.stdin.isatty() and session.console.err_is_terminal):
        raise UsageError("nobody is there to ask", next_step="Say it with --yes.")
    session.console.err.write("Apply? [y/N] ")
    session.console.err.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise InputError("nothing was done")
