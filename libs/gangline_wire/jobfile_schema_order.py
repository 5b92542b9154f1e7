"""The part of the job file's JSON Schema that says after what and when."""

from typing import Any

from gangline_core.spec import DependencyKind
from gangline_wire.jobfile_order import JOB_ID_MOST, KINDS, MS_MOST
from gangline_wire.limits import most

_NUMBER: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": JOB_ID_MOST}
_TEXT: dict[str, Any] = {
    "type": "string",
    "maxLength": max(map(len, KINDS)) + 1 + most("name_chars") + len("_12345678"),
    "examples": ["42_7", "afterany:42", "prepare", "afterok:prepare"],
}
_OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "job": {"anyOf": [_NUMBER, {"type": "string", "maxLength": most("name_chars") + len("_12345678")}]},
        "outcome": {"enum": [kind.value for kind in DependencyKind]},
        "any_outcome": {"type": "boolean"},
    },
    "required": ["job"],
    "additionalProperties": False,
}
_INDEXES: dict[str, Any] = {"type": "string", "pattern": "^[0-9:,-]+$"}


def _moment(meaning: str) -> dict[str, Any]:
    return {
        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer", "minimum": 0, "maximum": MS_MOST}],
        "description": meaning,
        "examples": ["2026-07-01T02:00:00Z"],
    }


ORDER_PROPERTIES: dict[str, dict[str, Any]] = {
    "after": {
        "anyOf": [
            _NUMBER,
            _TEXT,
            _OBJECT,
            {"type": "array", "items": {"anyOf": [_NUMBER, _TEXT, _OBJECT]}, "maxItems": most("after")},
        ],
        "description": "Jobs that must have ended first: succeeded (a number, or afterok:N), however (afterany:N), "
        "or without success (afternotok:N). An element of an array is written 42_7. A job before it in the same "
        "file or call has no number yet: its name stands for it (prepare, afterany:prepare).",
        "examples": [[12, "afterany:13", {"job": "42_7", "outcome": "notok"}]],
    },
    "singleton": {
        "type": "boolean",
        "description": "True lets it wait until every earlier job of the same user and name has ended.",
    },
    "not_before": _moment("It does not start earlier: RFC 3339 with offset, or ms since 1970."),
    "deadline": _moment(
        "It must have ended by then: it ends when it could not start in time any more, and is stopped then. "
        "Of one that goes on where it stopped (checkpoints) only what is left counts."
    ),
    "array": {
        "anyOf": [
            {"type": "string", "pattern": "^[0-9:,-]+(%[0-9]+)?$"},
            {
                "type": "object",
                "properties": {
                    "indexes": _INDEXES,
                    "at_most": {"type": "integer", "minimum": 1, "maximum": most("array_elements")},
                },
                "required": ["indexes"],
                "additionalProperties": False,
            },
        ],
        "description": "Many equal jobs as one: its indexes, and after % how many may be unfinished at once. "
        "Each element finds its index in GANGLINE_ARRAY_INDEX.",
        "examples": ["0-999%10"],
    },
}
