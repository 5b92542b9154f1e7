"""How a half-written command line is completed, for every shell by the same function."""

import argparse
from collections.abc import Callable, Sequence

from gangline_client.parser import build_parser
from gangline_client.verbs import HANDOVERS

JOB_PLACES = frozenset({"job", "jobs"})
NODE_PLACES = frozenset({"node", "nodes"})
FILE_PLACES = frozenset({"files", "file"})
FILES = ":files"
"""The one answer that asks the shell to complete file names itself."""

Lookup = Callable[[str], list[str]]
"""Names of a kind ("jobs" or "nodes") as the platform knows them now; empty when it does not answer."""


def complete(words: Sequence[str], *, look_up: Lookup) -> list[str]:
    """What the last word may become, given the words before it (without "gangline" itself)."""
    *before, begun = words or [""]
    parser, rest = _descend(build_parser(), before)
    if "--" in before:
        return [FILES]
    waiting = _option_waiting_for_value(parser, rest)
    if waiting is not None:
        return _begin(_values(waiting, look_up), begun)
    if begun.startswith("-"):
        return _begin(_flags(parser), begun)
    return _begin(_positional_values(parser, look_up), begun)


def script(shell: str) -> str:
    """The text that teaches a shell to ask us."""
    return SCRIPTS[shell]


def _descend(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[argparse.ArgumentParser, list[str]]:
    """The innermost parser the words lead to, and the words behind its name."""
    rest: list[str] = []
    for word in words:
        acts = _acts(parser)
        if acts is not None and word in acts.choices and _option_waiting_for_value(parser, rest) is None:
            parser, rest = acts.choices[word], []
        else:
            rest.append(word)
    return parser, rest


def _acts(parser: argparse.ArgumentParser) -> "argparse._SubParsersAction[argparse.ArgumentParser] | None":
    return next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)


def _option_waiting_for_value(parser: argparse.ArgumentParser, rest: Sequence[str]) -> argparse.Action | None:
    if not rest:
        return None
    action = parser._option_string_actions.get(rest[-1])
    return action if action is not None and action.nargs != 0 else None


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return sorted(option for option in parser._option_string_actions if option.startswith("--"))


def _positional_values(parser: argparse.ArgumentParser, look_up: Lookup) -> list[str]:
    acts = _acts(parser)
    if acts is not None:
        handovers = [each.name for each in HANDOVERS] if acts.dest == "verb" else []
        return sorted([*acts.choices, *handovers])
    values = [_values(action, look_up) for action in parser._actions if not action.option_strings]
    return [value for some in values for value in some]


def _values(action: argparse.Action, look_up: Lookup) -> list[str]:
    if action.choices is not None:
        return sorted(map(str, action.choices))
    place = action.dest
    if place in JOB_PLACES or (place == "after" and action.type is int):
        return look_up("jobs")
    if place in NODE_PLACES:
        return look_up("nodes")
    return [FILES] if place in FILE_PLACES or place in {"workdir", "command"} else []


def _begin(values: list[str], begun: str) -> list[str]:
    return [value for value in values if value.startswith(begun) or value == FILES]


# Names come from strangers: bash would carry out what `compgen -W` reads and what stands unquoted on the line.
BASH = """\
_gangline() {
    local word=${COMP_WORDS[COMP_CWORD]} answer option
    answer=$(gangline __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    COMPREPLY=()
    if [[ $answer == ":files" ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
    fi
    while IFS= read -r option; do
        [[ -n $option && $option == "$word"* ]] && COMPREPLY+=("$(printf %q "$option")")
    done <<< "$answer"
}
complete -F _gangline gangline
"""
ZSH = """\
_gangline() {
    local answer
    answer=$(gangline __complete "${(@)words[2,$CURRENT]}" 2>/dev/null)
    if [[ $answer == ":files" ]]; then
        _files
    else
        compadd -- ${(f)answer}
    fi
}
compdef _gangline gangline
"""
FISH = """\
function __gangline_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer (gangline __complete $words[2..-1] 2>/dev/null)
    if test "$answer" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $answer
    end
end
complete -c gangline -f -a '(__gangline_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
