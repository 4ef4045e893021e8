"""The union of word sources behind the attacks `words/...`, and its substitutes as a table for training."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import cache
from typing import Any

import torch

from tune_tickets.attacks.neighbours import Neighbours, Union, load_encoder
from tune_tickets.attacks.threat import RULES_VERSION, ThreatModel, get_threat
from tune_tickets.attacks.word_resources import neighbour_lists
from tune_tickets.attacks.word_rules import word_forms

_CONSIDERED = 400
"""Nearest words from which the 50 of a union are taken."""
_DECIDING = ("words", "max_candidates", "min_word_cosine", "resources")
_NOT_WORDS = ("sentence encoder", "toolkit")
"""Resources of an attack that have no part in which words it tries."""


def union_of(threat: ThreatModel, device: torch.device) -> Union:
    """The substitutes of all sources of a threat model that need no context. Opposites are kept out of every source."""
    listed: list[Callable[[str], Iterable[str]]] = []
    if "inflections" in threat.sources:
        listed.append(word_forms)
    if "wordnet" in threat.sources:
        from tune_tickets.attacks.parts import WordNetSwap  # imports TextAttack

        listed.append(WordNetSwap()._get_replacement_words)
    if "cf8" in threat.sources:
        lists = neighbour_lists()
        listed.append(lambda word: lists.get(word, ()))
    near = neighbours(device, threat.min_word_cosine or 0.0, _CONSIDERED)
    return Union(near, threat.max_candidates or 0, listed)


@cache
def neighbours(device: torch.device, min_cosine: float, considered: int = 100) -> Neighbours:
    """The nearest words of the bundled encoder; one object per process."""
    return Neighbours(load_encoder(device), min_cosine, considered)


def source_identity(source: str) -> dict[str, Any]:
    """Everything that decides which substitutes a source has: the part of the attack `words/<source>` about words.

    Raises:
        ConfigError: there is no such attack.
        ResourceError: a resource of the source is missing.
    """
    values = asdict(get_threat(f"words/{source}"))
    found = {name: values[name] for name in _DECIDING}
    resources = {name: identity for name, identity in values["resources"].items() if name not in _NOT_WORDS}
    return {**found, "resources": resources, "rules": RULES_VERSION}


def substitutes_of(source: dict[str, Any], words: Iterable[str]) -> dict[str, list[str]]:
    """The substitutes of lower-case words, in the order in which attacks try them. Words without any are left out.

    Args:
        source: what `source_identity` returned.
        words: any words; each is looked up once.
    """
    threat = ThreatModel("", **{name: source[name] for name in _DECIDING})
    union, distinct = union_of(threat, torch.device("cpu")), sorted(set(words))
    union.prepare(distinct)
    found = {word: list(union.of(word)) for word in distinct}
    return {word: others for word, others in found.items() if others}
