"""Which nodes a pod's node affinity allows, in a word that the log understands: a label of its own on those nodes.

The log knows labels that must be equal. Everything else that a required node affinity can say is judged here, node by
node, whenever a node is described; nodes that fit bear a label named after the affinity.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from gangline_kubernetes.needs import PORT, ports_of
from gangline_kubernetes.objects import Meta, Pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LABEL = "affinity.gangline.dev/"
"""Begins the label of nodes that an affinity allows; then comes its digest."""
OF_PORT = LABEL + "port."
FITS = "fits"
AFFINITIES_MAX = 64
"""Different affinities, and ports of nodes, at a time: each is a label of many nodes."""

Term = dict[str, Any]
ANYWHERE: list[Term] = [{"matchExpressions": [{"key": LABEL + "nowhere", "operator": "DoesNotExist"}]}]
"""Allows every node: each has one of every port, which the log knows once they all bear the port's label."""


def terms_of(pod: Pod) -> list[Term] | None:
    """The alternatives of a pod's required node affinity; None without one."""
    node = (pod.spec.affinity or {}).get("nodeAffinity") or {}
    required = node.get(REQUIRED)
    return None if required is None else [dict(one) for one in required.get("nodeSelectorTerms") or ()]


def allows(terms: list[Term], node: Meta) -> bool:
    """True when one of the alternatives fits the node; one that says nothing fits none, as the API has it."""
    return any(_fits(term, node) for term in terms)


def _fits(term: Term, node: Meta) -> bool:
    labels, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not labels and not fields:
        return False
    name = {"metadata.name": node.name}
    return all(_holds(one, node.labels) for one in labels) and all(_holds(one, name) for one in fields)


def _holds(asked: Term, labels: Mapping[str, str]) -> bool:
    value, wanted = labels.get(asked.get("key", "")), list(asked.get("values") or ())
    word = asked.get("operator")
    if word in ("Gt", "Lt"):
        mine, bound = _number(value), _number(next(iter(wanted), None))
        return mine is not None and bound is not None and (mine > bound if word == "Gt" else mine < bound)
    judged = {
        "In": value in wanted,
        "NotIn": value not in wanted,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return judged.get(word or "", False)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.removeprefix("-").isdecimal() and len(text) < 20 else None


def plain(terms: list[Term]) -> dict[str, str] | None:
    """The labels that must be equal, when the affinity says no more than that."""
    if len(terms) != 1 or terms[0].get("matchFields") or not terms[0].get("matchExpressions"):
        return None
    found: dict[str, str] = {}
    for one in terms[0]["matchExpressions"]:
        values = list(one.get("values") or ())
        if one.get("operator") != "In" or len(values) != 1 or found.get(one["key"], values[0]) != values[0]:
            return None
        found[one["key"]] = values[0]
    return found


def label_of(terms: list[Term]) -> str:
    """The label that nodes bear which these terms allow."""
    return LABEL + sha256(msgspec.json.encode(terms, order="sorted")).hexdigest()[:16]


def label_of_port(port: str) -> str:
    """The label that nodes bear of which the log knows that they have this port."""
    return OF_PORT + port.removeprefix(PORT).replace("/", ".")


def selector_of(pod: Pod) -> dict[str, str]:
    """The labels that a node must have for this pod, those by which we say its affinity among them."""
    terms, selector = terms_of(pod), pod.spec.node_selector
    if terms is None:
        return selector
    equal = plain(terms)
    if equal is None or any(selector.get(key, value) != value for key, value in equal.items()):
        return {**selector, label_of(terms): FITS}
    return {**selector, **equal}


class Affinities:
    """The affinities of pods that wait and owners that live, for whoever describes nodes."""

    def __init__(self) -> None:
        """None is known."""
        self.changed: Callable[[], None] = lambda: None
        """Called when nodes have to be described anew."""
        self.seen: Callable[[], Iterable[tuple[Meta, Mapping[str, str]]]] = tuple
        """Every node, and its labels as the log has them."""
        self._known: dict[str, None] = {}
        """Labels that the log has for every node they are on."""
        self._terms: dict[str, list[Term]] = {}
        """By label."""
        self._holders: dict[str, dict[str, None]] = {}
        """Uids of those who need each label."""
        self._labels: dict[str, tuple[str, ...]] = {}
        """Labels that each needs, by uid."""

    def hold(self, uid: str, pods: Sequence[Pod]) -> bool:
        """Keep the labels that these pods need for as long as `drop` is not called; False when there are too many."""
        asked = {label_of(terms): terms for pod in pods if (terms := terms_of(pod)) is not None}
        needed = {label: terms for label, terms in asked.items() if any(label in selector_of(pod) for pod in pods)}
        needed |= {label_of_port(port): ANYWHERE for pod in pods for port in ports_of(pod)}
        if uid in self._labels and self._labels[uid] == tuple(needed):
            return True
        self.drop(uid)
        fresh = [label for label in needed if label not in self._terms]
        if len(self._terms) + len(fresh) > AFFINITIES_MAX:
            return False
        if needed:
            self._labels[uid] = tuple(needed)
        for label, terms in needed.items():
            self._terms[label] = terms
            self._holders.setdefault(label, {})[uid] = None
        if fresh:
            self.changed()
        return True

    def drop(self, uid: str) -> None:
        """Nobody of this uid waits any more; nodes lose the label when they are described next."""
        for label in self._labels.pop(uid, ()):
            self._holders[label].pop(uid)
            if not self._holders[label]:
                del self._holders[label], self._terms[label]
                self._known.pop(label, None)

    def is_known(self, uid: str) -> bool:
        """True when the log knows of all nodes which of them these affinities allow."""
        for label in self._labels.get(uid, ()):
            terms = self._terms[label]
            if label not in self._known and all(label in told for node, told in self.seen() if allows(terms, node)):
                self._known[label] = None
        return all(label in self._known for label in self._labels.get(uid, ()))

    def terms(self, selector: Mapping[str, str]) -> list[Term]:
        """The affinity behind the label in this selector; none when it names none, or nobody holds it any more."""
        return next((self._terms[label] for label in selector if label in self._terms), [])

    def ports(self) -> list[str]:
        """Ports of nodes that somebody asks for, as devices of which every node has one."""
        return [
            PORT + label.removeprefix(OF_PORT).replace(".", "/") for label in self._terms if label.startswith(OF_PORT)
        ]

    def labels(self, node: Meta) -> dict[str, str]:
        """Labels of the affinities that allow this node."""
        return {label: FITS for label, terms in self._terms.items() if allows(terms, node)}
