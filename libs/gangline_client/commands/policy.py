"""`gangline policy`: how a pool decides; changes are checked as a whole before they are made."""

from argparse import Namespace
from pathlib import Path

import msgspec

from gangline_client.commands.history import POOL_KINDS, show_history
from gangline_client.commands.policy_file import apply_file, diff_file, is_file, lint_file, show_file
from gangline_client.commands.policy_offline import lint_offline
from gangline_client.errors import InputError, UsageError
from gangline_client.session import Session, emit
from gangline_client.table import Column
from gangline_core.cluster import Policy
from gangline_core.counted import counted
from gangline_core.foresight.learnt import version
from gangline_wire import views as v
from gangline_wire.policy_keys import (
    COUNTS,
    DEFAULT,
    NAMES,
    OTHERS,
    SWITCHES,
    NoChangeError,
    UnknownKeyError,
    changed,
)
from gangline_wire.problem import WrongValueError

FACTOR_COLUMNS = (Column("FACTOR"), Column("MEANING", gives_way=True))


class TaughtModel(msgspec.Struct, frozen=True):
    """What is read of a model's file."""

    model: str


async def policy(session: Session, args: Namespace) -> int:
    """Do the act; without one, show all policies."""
    match args.act:
        case "set":
            return await _set(session, args)
        case "lint" if args.offline:
            return lint_offline(session.console, args.formula, now_ms=session.now_ms())
        case "lint" if is_file(args.formula):
            return await lint_file(session, args.formula)
        case "lint":
            return await _lint(session, args)
        case "diff":
            return await diff_file(session, args.file)
        case "apply":
            return await apply_file(session, args)
        case "history":
            return await show_history(session, POOL_KINDS, pool=args.pool, limit=args.limit)
        case "show" if args.file:
            return await show_file(session)
        case _:
            return await _show(session, args.pool if args.act == "show" else "")


async def _show(session: Session, pool: str) -> int:
    views = await session.client.policies()
    chosen = tuple(each for each in views.policies if not pool or each.pool == pool)
    if pool and not chosen:
        known = ", ".join(each.pool for each in views.policies) or "none"
        raise InputError(f"there is no pool {pool}; known: {known}")

    def people() -> None:
        for view in chosen:
            _tell(session, view)
        session.console.say("To choose from")
        session.console.fact("Orderings", ", ".join(views.orderings))
        session.console.fact("Placements", ", ".join(views.placements))
        session.console.fact("Sizes", ", ".join(views.elastics))
        if views.factors:
            session.console.say()
            session.console.table(FACTOR_COLUMNS, [[name, meaning] for name, meaning in sorted(views.factors.items())])

    shown = chosen[0] if pool else views
    emit(session.console, shown, names=[each.pool for each in chosen], people=people)
    return 0


def _tell(session: Session, view: v.PolicyView) -> None:
    session.console.say(f"Pool {view.pool} (version {view.version})")
    for key, word in _words(view.policy).items():
        session.console.say(f"  {key:<22}{word}")
    if view.levels:
        levels = sorted(view.levels.items(), key=lambda level: (-level[1], level[0]))
        session.console.say(f"  {'levels':<22}{', '.join(f'{name} {more:g}' for name, more in levels)}")
    if view.nodes_wanted:
        used = f"{view.utility_permille / 10:g} % speed-up per GPU"
        session.console.say(f"Its jobs would use {counted(view.nodes_wanted, 'node')} well ({used}).")
    for own in view.schedulers:
        changed = f"{own.conflicts} had changed meanwhile" if own.conflicts else "none had changed meanwhile"
        session.console.say(f"Scheduler {own.number} placed {own.commits} gangs; {changed}.")
    session.console.say()


async def _set(session: Session, args: Namespace) -> int:
    view = await session.client.policy(args.pool)
    after = _change(view.policy, args.changes)
    old, new = _all_words(view.policy), _all_words(after)
    changes = [f"{key}: {old[key] or '-'} -> {now or '-'}" for key, now in new.items() if old[key] != now]
    if not changes:
        session.console.say("Nothing changes.")
        return 0
    done = await session.client.set_policy(args.pool, after, version=view.version, dry_run=args.dry_run, why=args.why)

    def people() -> None:
        session.console.say(
            f"Pool {args.pool} {'would decide' if args.dry_run else 'decides from the next round on'} so:"
        )
        for line in changes:
            session.console.say(f"  {line}")

    emit(session.console, done, names=[args.pool], people=people)
    return 0


async def _lint(session: Session, args: Namespace) -> int:
    """Ask the platform to check the formula as it would for a change, and change nothing."""
    view = await session.client.policy(args.pool)
    tried = msgspec.structs.replace(view.policy, ordering="weighted", formula=args.formula)
    done = await session.client.set_policy(args.pool, tried, version=view.version, dry_run=True)
    emit(session.console, done, names=[args.pool], people=lambda: session.console.say("The formula is fine."))
    return 0


def _change(policy: Policy, changes: list[str]) -> Policy:
    for text in changes:
        try:
            policy = changed(policy, text, model=_model)
        except NoChangeError as error:
            step = "For instance: gangline policy set default ordering=fifo."
            raise UsageError(str(error), next_step=step) from error
        except UnknownKeyError as error:
            raise UsageError(str(error), next_step="See the keys with `gangline policy set --help`.") from error
        except WrongValueError as error:
            raise UsageError(str(error)) from error
    return policy


def _model(path: str) -> str:
    """The text of a model, from a file of `gangline lab train`; nothing takes it away."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=TaughtModel).model
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{path} is no file of gangline lab train ({error})") from error


def _words(policy: Policy) -> dict[str, str]:
    """What is shown of a policy: the settings that matter to most, and what is not as it is by default."""
    others = _all_words(DEFAULT)
    return {key: word for key, word in _all_words(policy).items() if key not in OTHERS or word != others[key]}


def _all_words(policy: Policy) -> dict[str, str]:
    words = {key: str(getattr(policy, key)) for key in NAMES}
    words |= {key: str(getattr(policy, key)).lower() for key in SWITCHES}
    words |= {"starvation": f"{policy.starvation_s}s", **{key: str(getattr(policy, key)) for key in COUNTS}}
    others = {key: getattr(policy, key) for key in OTHERS}
    others["model"] = version(policy.model) if policy.model else ""
    return words | {key: str(value).lower() for key, value in others.items()}
