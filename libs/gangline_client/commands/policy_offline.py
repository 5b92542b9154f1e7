"""`gangline policy lint --offline`: a policy file or formula checked by itself, where no platform is asked.

It is checked as a platform would that has no settings yet: one pool, no groups, no machines.
"""

from gangline_client.commands.policy_file import is_file, read_file
from gangline_client.console import Console
from gangline_client.errors import InputError
from gangline_core.cluster import Policy
from gangline_core.settings import check_policy
from gangline_core.settings.document_change import check
from gangline_core.state import State
from gangline_wire.policyfile import PolicyFileError, parse_policy
from gangline_wire.policyfile_show import path_of
from gangline_wire.problem import FieldError

LEFT_OPEN = "Checked by itself: what it needs of the machines and settings of a platform was not looked at."


def lint_offline(console: Console, text: str, *, now_ms: int) -> int:
    """Check a policy file or a formula against itself.

    Raises:
        InputError: something is wrong with it; all of it is told, each with its line.
    """
    if not is_file(text):
        problem = check_policy(State(), Policy(ordering="weighted", formula=text))
        if problem is not None:
            raise InputError(f"formula: {problem.message}")
        console.say("The formula is fine.")
        return 0
    page = read_file(text)
    try:
        document = parse_policy(page.document)
        errors = [FieldError(path_of(one), one.problem.message) for one in check(State(), document, now_ms)]
    except PolicyFileError as error:
        errors = list(error.errors)
    for one in errors:
        console.note(f"{page.place}:{page.line(one.path)}: {one.path}: {one.message}")
    if errors:
        raise InputError(f"{page.place} would be refused")
    console.say(f"{page.place} is fine.")
    console.note(LEFT_OPEN)
    return 0
