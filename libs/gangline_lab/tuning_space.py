"""What tuning searches: weights of the present formula's own terms, of terms that it lacks, and settings of the policy.

A point has one number from 0 to 1 for each of them. Terms with `level` or `priority` stay as the administrator has
them: they say who matters, not how to order equals. Numbers inside a term (`where(gpus > 8, ...)`) are part of it.
"""

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Policy
from gangline_core.scoring.formula import FORMULA_LENGTH_MAX, Term, compile_formula

NEW_TERMS = ("age_hours", "-share_over_weight", "-gpus * estimate_hours", "-gpus", "-estimate_hours")
"""Terms that a formula is tried with where it has none of the same factors."""
WITHOUT_ONE = "level + 1000 * priority"
"""What a policy that does not order by a formula begins with."""
STAYS = frozenset({"level", "priority"})
WEIGHT_MAX = 100.0
ABSENT, OCTAVES = 0.08, 12
"""Below so much a term is left out; above, its weight runs through so many doublings, the present one in the middle."""
NEW_ABSENT = 0.3
"""The same for terms that the formula lacks, whose weights rise from 0 to WEIGHT_MAX."""
WRITTEN_MOST = 60
"""Characters that a term grows by at most when its weight is written before it."""
SETTINGS: dict[str, tuple[int, ...]] = {
    "starvation_s": (900, 1_800, 3_600, 7_200, 14_400, 86_400),
    "starvation_percent": (10, 25, 50, 100),
    "backfill_depth": (1, 2, 4, 8),
    "unlimited_run_percent": (100, 150, 300),
    "half_life_s": (86_400, 259_200, 604_800, 2_592_000),
}
"""Settings of a policy that are searched where they count, and what they are tried with beside their present value."""
COEFFICIENT = re.compile(r"(-?)(\d+(?:\.\d+)?) \* (.+)")


class Space(Struct, frozen=True):
    """All points, around a present policy."""

    present: Policy
    stays: tuple[str, ...]
    own: tuple[str, ...]
    """Terms of the formula whose weights move."""
    new: tuple[str, ...]
    settings: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def size(self) -> int:
        """Numbers of a point."""
        return len(self.own) + len(self.new) + len(self.settings)

    def start(self) -> list[float]:
        """The point of the present policy."""
        places = [values.index(getattr(self.present, name)) for name, values in self.settings]
        parts = [(place + 0.5) / len(values) for place, (_, values) in zip(places, self.settings, strict=True)]
        return [(1 + ABSENT) / 2] * len(self.own) + [NEW_ABSENT / 2] * len(self.new) + parts

    def policy(self, point: Sequence[float]) -> Policy:
        """The policy at a point."""
        own, rest = point[: len(self.own)], point[len(self.own) :]
        new, settings = rest[: len(self.new)], rest[len(self.new) :]
        terms = list(self.stays)
        terms += [weighted(term, _factor(part)) for term, part in zip(self.own, own, strict=True) if part >= ABSENT]
        for term, part in zip(self.new, new, strict=True):
            weight = WEIGHT_MAX * (max(0.0, part - NEW_ABSENT) / (1 - NEW_ABSENT)) ** 2
            terms += [weighted(term, weight)] if weight >= 0.005 else []
        chosen = {
            name: values[min(len(values) - 1, int(part * len(values)))]
            for (name, values), part in zip(self.settings, settings, strict=True)
        }
        return replace(self.present, ordering="weighted", formula=joined(terms) or "level", **chosen)

    def changed(self, policy: Policy) -> dict[str, tuple[int, int]]:
        """Settings in which a policy differs from the present one: before and after."""
        pairs = {name: (getattr(self.present, name), getattr(policy, name)) for name, _ in self.settings}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def space_of(present: Policy) -> Space:
    """What can be searched around this policy."""
    is_formula = present.ordering == "weighted"
    terms = compile_formula(present.formula if is_formula else WITHOUT_ONE).terms
    own = [term for term in terms if term.names.isdisjoint(STAYS)]
    length = len(present.formula) + WRITTEN_MOST * len(own)
    new = [one for one in NEW_TERMS if not any(_same_factors(one, term) for term in own)]
    return Space(
        present=present,
        stays=tuple(term.text for term in terms if not term.names.isdisjoint(STAYS)),
        own=tuple(term.text for term in own),
        new=tuple(new) if length + WRITTEN_MOST * len(new) <= FORMULA_LENGTH_MAX else (),
        settings=tuple(
            (name, tuple(sorted({*values, getattr(present, name)})))
            for name, values in SETTINGS.items()
            if _counts(present, name, terms)
        ),
    )


def _counts(present: Policy, name: str, terms: Sequence[Term]) -> bool:
    """True when the setting says something under this policy; what is switched off stays so."""
    if name == "half_life_s":
        return any("share" in factor for term in terms for factor in term.names)
    if name in ("backfill_depth", "unlimited_run_percent"):
        return present.backfill and present.backfill_depth > 0
    if name == "starvation_percent":
        return present.starvation_s > 0
    return bool(getattr(present, name))


def _same_factors(text: str, term: Term) -> bool:
    return compile_formula(text).terms[0].names == term.names


def _factor(part: float) -> float:
    """What a weight is multiplied with; exactly 1 at the start."""
    return float(2 ** (OCTAVES * ((part - ABSENT) / (1 - ABSENT) - 0.5)))


def weighted(term: str, factor: float) -> str:
    """The term with so many times its weight: its own number changes where it begins with one."""
    if abs(factor - 1) < 1e-9:
        return term
    if (found := COEFFICIENT.fullmatch(term)) is not None:
        return f"{found[1]}{written(float(found[2]) * factor)} * {found[3]}"
    sign, body = ("-", term[1:]) if term.startswith("-") else ("", term)
    return f"{sign}{written(factor)} * {body if re.fullmatch(r'[A-Za-z_]+( [*] [A-Za-z_]+)*', body) else f'({body})'}"


def written(number: float) -> str:
    """A weight with three digits that count."""
    text = f"{number:.3g}"
    return f"{number:.0f}" if "e+" in text else f"{number:.6f}".rstrip("0") if "e-" in text else text


def joined(terms: Sequence[str]) -> str:
    """Terms as one sum."""
    text = " ".join(f"- {term[1:]}" if term.startswith("-") else f"+ {term}" for term in terms)
    return text.removeprefix("+ ")
