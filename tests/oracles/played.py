"""Plays a scenario that is written down as data: machines, groups, jobs with their times, and what must come of it.

Fields of a case: `nodes` (name -> arguments of `node`), `groups` (path -> fields of a group), `policy`, `jobs` (each
with `name`, `at`, `on` when it runs there from the beginning, `times` for so many equal ones, and arguments of `ask`),
`cancels` (name -> second), `until`; and what is expected: `running`, `waiting`, `ended`, `refused` (name -> code),
`members` (name -> [least, most]), `evictions`, `victims`.
"""

import json
from pathlib import Path
from typing import Any

from tests.cases.drive import Ask, Drive
from tests.make import group, node, role, spec

from gangline_core.job import JobState

DATA = Path(__file__).parent / "data"
Case = dict[str, Any]


def table(name: str) -> Case:
    """One system's checks."""
    found: Case = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert found["source"], f"{name} does not say where it is from"
    return found


def name_of(case: Case) -> str:
    """How a case is called in a report."""
    return str(case["name"])


class Played:
    """A case that was played to its end."""

    def __init__(self, case: Case) -> None:
        """Play it; the oracles of every scenario hold after every instant."""
        self.case = case
        nodes = [node(name, **{"gpus": 0, "cpus": 64, **fields}) for name, fields in case["nodes"].items()]
        groups = [group(path, **fields) for path, fields in case.get("groups", {}).items()]
        self.drive = Drive(*nodes, groups=groups, policy=case.get("policy", {}))
        self.asks: dict[str, list[Ask]] = {}
        for asked in case["jobs"]:
            self._ask(dict(asked))
        for name, at in case.get("cancels", {}).items():
            for ask in self.asks[name]:
                self.drive.later(at, lambda ask=ask: self.drive.drop(ask))
        self.drive.until(case.get("until", 100))
        self.drive.prove_evictions()
        self.drive.close()

    def prove(self) -> None:
        """Everything that the case expects has come about."""
        case, drive = self.case, self.drive
        for name in case.get("running", ()):
            assert drive.is_running(*self.asks[name]) == [True] * len(self.asks[name]), (name, self._all())
        for name in case.get("waiting", ()):
            assert drive.is_waiting(*self.asks[name]) == [True] * len(self.asks[name]), (name, self._all())
        for name in case.get("ended", ()):
            assert {drive.job(ask.id).state for ask in self.asks[name]} == {JobState.SUCCEEDED}, (name, self._all())
        for name, code in case.get("refused", {}).items():
            assert [ask.refused and ask.refused.code for ask in self.asks[name]] == [code] * len(self.asks[name]), name
        for name, (least, most) in case.get("members", {}).items():
            assert least <= self.members(name) <= most, (name, self.members(name), self._all())
        if "evictions" in case:
            assert len(drive.evicted) == case["evictions"], drive.evicted
        if "victims" in case:
            assert {self.name_of(one.victim) for one in drive.evicted} == set(case["victims"])

    def members(self, name: str) -> int:
        """How many members all jobs of this name have now."""
        return sum(len(self.drive.job(ask.id).tasks) for ask in self.asks[name] if not ask.refused)

    def name_of(self, job: int) -> str:
        """The name that the case gives to a job."""
        return next(name for name, asks in self.asks.items() for ask in asks if ask.id == job)

    def _all(self) -> dict[str, list[str]]:
        """What became of everybody, for whoever reads a failure."""
        return {
            name: [ask.refused.code if ask.refused else self.drive.job(ask.id).state for ask in asks]
            for name, asks in self.asks.items()
        }

    def _ask(self, asked: Case) -> None:
        name, times, at = asked.pop("name"), asked.pop("times", 1), asked.pop("at", 0)
        where = asked.pop("on", None)
        fields = {"gpus": 0, "cpus": 0, **asked}
        if "roles" in fields:
            fields["roles"] = [role(**{"gpus": 0, "cpus": 0, **one}) for one in fields["roles"]]
            del fields["gpus"], fields["cpus"]
        if where is None:
            self.asks[name] = self.drive.asks_of(times, at, **fields)
            return
        self.asks[name] = [self._running(where, dict(fields)) for _ in range(times)]

    def _running(self, where: str, fields: Case) -> Ask:
        """A job that runs on this node from the beginning."""
        drive = self.drive
        ask = Ask(spec(**fields), run=None, start=0, stop=0, code=0)
        ask.id = drive.submit(ask.spec)
        drive.asks[ask.id] = ask
        drive.place(ask.id, where)
        drive.start(ask.id)
        return ask
