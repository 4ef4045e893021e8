"""Threat models by name: recipe, parameters and the identity of every resource. Declarative; `recipes` builds them."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Literal

from tune_tickets.errors import ConfigError, ResourceError
from tune_tickets.models.bundled import WEIGHTS_SHA256

ANTONYMS_VARIABLE = "TUNE_TICKETS_ANTONYMS"
_PACKAGE = Path(str(files("tune_tickets.attacks")))
ANTONYMS_FILE = _PACKAGE / "antonyms.txt"
JUDGEMENTS_FILE = _PACKAGE / "judgements.txt"
NEGATIONS_FILE = _PACKAGE / "negations.txt"

RULES_VERSION = 1
"""Part of every fingerprint; raised when the code of the attacks changes what the same parameters do."""

Recipe = Literal["textfooler", "textbugger"]


@dataclass(frozen=True)
class ThreatModel:
    """What an attacker may do. Two figures are comparable only if their fingerprints are equal."""

    name: str
    recipe: Recipe
    max_candidates: int
    """Neighbours tried per word."""
    min_word_cosine: float
    """Least cosine of a word and its substitute in the encoder's input embeddings."""
    min_similarity: float
    """Least cosine of the sentence embeddings of the original and the changed window."""
    window: int
    """Words around the change whose meaning is compared; stock TextFooler takes 15, nine cost a third less."""
    resources: dict[str, str] = field(hash=False)
    """What each resource is: a substitute gives another identity, hence another fingerprint."""
    query_budget: int | None = None

    @property
    def fingerprint(self) -> str:
        """The first 16 hex digits of the sha256 over everything that decides what the attack does."""
        content = {**asdict(self), "rules": RULES_VERSION}
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


_THREATS: dict[str, tuple[Recipe, int, float, float, int]] = {
    "textfooler/minilm": ("textfooler", 8, 0.37, 0.80, 9),
    "textbugger/minilm": ("textbugger", 5, 0.37, 0.80, 9),
}

KNOWN_THREATS: tuple[str, ...] = tuple(_THREATS)


def get_threat(name: str, query_budget: int | None = None) -> ThreatModel:
    """The threat model of that name with the resources found here; `query_budget` makes it part of the fingerprint."""
    if name not in _THREATS:
        raise ConfigError(f"unknown attack {name!r}: known are {', '.join(KNOWN_THREATS)}")
    recipe, max_candidates, min_word_cosine, min_similarity, window = _THREATS[name]
    threat = ThreatModel(name, recipe, max_candidates, min_word_cosine, min_similarity, window, local_resources())
    return replace(threat, query_budget=query_budget)


def antonym_files() -> tuple[Path, ...]:
    """The antonym list of the package, and the one that TUNE_TICKETS_ANTONYMS names."""
    extra = os.environ.get(ANTONYMS_VARIABLE)
    if not extra:
        return (ANTONYMS_FILE,)
    if not Path(extra).is_file():
        raise ResourceError(f"{ANTONYMS_VARIABLE} names {extra!r}, which is not a file: correct or unset it")
    return (ANTONYMS_FILE, Path(extra))


def local_resources() -> dict[str, str]:
    """What each resource is in this process."""
    encoder = f"all-MiniLM-L6-v2 sha256:{WEIGHTS_SHA256[:12]}"
    return {
        "toolkit": f"textattack {version('textattack')}",
        "word neighbours": f"input embeddings of {encoder}",
        "sentence encoder": encoder,
        "stop words": f"scikit-learn {version('scikit-learn')} ENGLISH_STOP_WORDS",
        "negations": f"sha256:{_digest(NEGATIONS_FILE)}",
        "polarity": f"vaderSentiment {version('vaderSentiment')} + sha256:{_digest(JUDGEMENTS_FILE)}",
        "part of speech": f"lemminflect {version('lemminflect')}",
        "antonyms": " + ".join(f"sha256:{_digest(path)}" for path in antonym_files()),
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
