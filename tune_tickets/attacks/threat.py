"""Threat models by name: recipe, parameters and the identity of every resource. Declarative; `recipes` builds them."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from tune_tickets.config.evaluation import Attack, Evaluation
from tune_tickets.errors import ConfigError, ResourceError
from tune_tickets.models.source import WEIGHTS_SHA256

ANTONYMS_VARIABLE = "TUNE_TICKETS_ANTONYMS"
_PACKAGE = Path(str(files("tune_tickets.attacks")))
ANTONYMS_FILE = _PACKAGE / "antonyms.txt"
JUDGEMENTS_FILE = _PACKAGE / "judgements.txt"
NEGATIONS_FILE = _PACKAGE / "negations.txt"

RULES_VERSION = 2
"""Part of every fingerprint; raised when the code of the attacks changes what the same parameters do."""

_SETTABLE = ("max_candidates", "min_word_cosine", "min_similarity", "window", "max_modified")
"""What an experiment may change of a threat model: RobustT Table 6 calls them N, S and M."""


@dataclass(frozen=True)
class ThreatModel:
    """What an attacker may do. Two figures are comparable only if their fingerprints are equal."""

    name: str
    swaps: Literal["words", "bugs", "letters"] = "words"
    """Words by words; that and TextBugger's bugs; or DeepWordBug's slips of the keyboard."""
    steady_bugs: bool = False
    """Whether a word in a row gets the same bugs whatever the victim ranks first; stock draws them as they come."""
    words: Literal["counter-fitted", "cf8", "minilm", "masked-lm", "wordnet"] | None = None
    """Where substitutes come from."""
    ranking: Literal["delete", "unk", "weighted-saliency"] = "delete"
    """How the words to change first are found."""
    stop_words: Literal["textfooler", "nltk", "local"] = "local"
    """Whose list of words is left alone; the local one holds negations too."""
    tagger: bool = False
    """Whether NLTK's tagger must give a word and its substitute the same part of speech."""
    encoder: Literal["use", "minilm"] | None = None
    """Which sentence encoder compares the meaning before and after."""
    angular: bool = False
    """Whether similarity is that of the angle in the place of the cosine."""
    against_current: bool = False
    """Whether a change is compared with the text it was made in, not with the original."""
    short_texts_pass: bool = False
    """Whether texts shorter than the window are not compared at all."""
    max_candidates: int | None = None
    """Substitutes tried per word."""
    min_word_cosine: float | None = None
    """Least cosine of a word and its substitute."""
    min_similarity: float | None = None
    """Least similarity of the sentence embeddings of the original and the changed window."""
    window: int | None = None
    """Words around the change whose meaning is compared; stock TextFooler takes 15. None: all."""
    max_modified: float | None = None
    """Largest share of words that may change."""
    max_edits: int | None = None
    """Largest Levenshtein distance."""
    query_budget: int | None = None
    resources: dict[str, str] = field(default_factory=dict, hash=False)
    """What each resource is: a substitute gives another identity, hence another fingerprint."""

    @property
    def fingerprint(self) -> str:
        """The first 16 hex digits of the sha256 over everything that decides what the attack does."""
        content = {**asdict(self), "rules": RULES_VERSION}
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def needs(self) -> tuple[str, ...]:
        """The resources beside those that come with the installation, by the names `tune-tickets fetch` knows."""
        wanted = {
            "counter-fitted vectors": self.words == "counter-fitted",
            "counter-fitted neighbours": self.words == "cf8",
            "masked lm": self.words == "masked-lm" and self.encoder == "use",
            "wordnet": self.words == "wordnet",
            "stop words": self.stop_words == "nltk",
            "tagger": self.tagger,
            "universal tagset": self.tagger,
            "universal sentence encoder": self.encoder == "use",
        }
        return tuple(name for name, needed in wanted.items() if needed)

    @property
    def fits_masked_lm(self) -> bool:
        """Whether its masked language model is fitted on the backbone by a stage."""
        return self.words == "masked-lm" and "masked lm" not in self.needs


# Under the papers' names the stock recipes of TextAttack; after the slash, forms that run on what an installation has.
_THREATS = (
    ThreatModel(
        "textfooler",
        words="counter-fitted",
        stop_words="textfooler",
        tagger=True,
        encoder="use",
        angular=True,
        against_current=True,
        short_texts_pass=True,
        max_candidates=50,
        min_word_cosine=0.5,
        min_similarity=0.840845057,
        window=15,
    ),
    ThreatModel(
        "textbugger",
        swaps="bugs",
        words="counter-fitted",
        stop_words="nltk",
        encoder="use",
        angular=True,
        max_candidates=5,
        min_similarity=0.8,
    ),
    ThreatModel(
        "bert-attack",
        words="masked-lm",
        ranking="unk",
        stop_words="nltk",
        encoder="use",
        max_candidates=8,  # as TextAttack 0.3.11; its authors take 48
        min_similarity=0.2,
        max_modified=0.4,
    ),
    # What the ticket papers' code runs under the name BERT-Attack: BAE with counter-fitted neighbours (Table 6).
    ThreatModel(
        "bae-counterfitted",
        words="counter-fitted",
        stop_words="nltk",
        tagger=True,
        encoder="use",
        short_texts_pass=True,
        max_candidates=50,
        min_similarity=0.2,
        window=15,
        max_modified=0.9,
    ),
    ThreatModel("pwws", words="wordnet", ranking="weighted-saliency", stop_words="nltk"),
    ThreatModel("deepwordbug", swaps="letters", ranking="unk", stop_words="nltk", max_edits=30),
    ThreatModel(
        "textfooler/minilm",
        words="minilm",
        encoder="minilm",
        max_candidates=8,
        min_word_cosine=0.37,
        min_similarity=0.8,
        window=9,  # a third cheaper than 15
    ),
    ThreatModel(
        "textbugger/minilm",
        swaps="bugs",
        steady_bugs=True,
        words="minilm",
        encoder="minilm",
        max_candidates=5,
        min_word_cosine=0.37,
        min_similarity=0.8,
        window=9,
    ),
    ThreatModel("textfooler/cf8", words="cf8", encoder="minilm", max_candidates=8, min_similarity=0.8, window=9),
    ThreatModel(
        "bert-attack/minilm",
        words="masked-lm",
        ranking="unk",
        encoder="minilm",
        max_candidates=8,
        min_similarity=0.2,
        max_modified=0.4,
    ),
    ThreatModel(
        "bae-counterfitted/cf8",
        words="cf8",
        encoder="minilm",
        max_candidates=8,
        min_similarity=0.2,
        window=15,
        max_modified=0.9,
    ),
    ThreatModel("pwws/local", words="wordnet", ranking="weighted-saliency"),
    ThreatModel("deepwordbug/local", swaps="letters", ranking="unk", max_edits=30),
)
THREATS: dict[str, ThreatModel] = {threat.name: threat for threat in _THREATS}
KNOWN_THREATS: tuple[str, ...] = tuple(THREATS)


def named(name: str, query_budget: int | None = None, **parameters: float | int | None) -> ThreatModel:
    """The threat model of that name with these parameters in the place of its own, its resources not looked at."""
    if name not in THREATS:
        raise ConfigError(f"unknown attack {name!r}: known are {', '.join(KNOWN_THREATS)}")
    threat = THREATS[name]
    changes: dict[str, Any] = {key: value for key, value in parameters.items() if value is not None}
    own = [key for key in _SETTABLE if key == "max_modified" or getattr(threat, key) is not None]
    foreign = [key for key in changes if key not in own]
    if foreign:
        raise ConfigError(f"attack {name!r} has no {', '.join(foreign)}: settable are {', '.join(own)}")
    changes = {key: value for key, value in changes.items() if value != getattr(threat, key)}
    label = ":".join([name, *(f"{key}:{value:g}" for key, value in sorted(changes.items()))])
    return replace(threat, name=label, query_budget=query_budget, **changes)


def threats_of(evaluation: Evaluation) -> list[ThreatModel]:
    """The threat models of an experiment, their resources not looked at."""
    return [threat_of(attack, evaluation.query_budget) for attack in evaluation.attacks]


def threat_of(attack: str | Attack, query_budget: int | None) -> ThreatModel:
    """The threat model that stands in an experiment by name, or by name and parameters."""
    if isinstance(attack, str):
        return named(attack, query_budget)
    return named(attack.name, query_budget, **attack.parameters())


def get_threat(
    name: str, query_budget: int | None = None, masked_lm: str | None = None, **parameters: float | int | None
) -> ThreatModel:
    """The threat model with the resources found here, all of them part of its fingerprint.

    `masked_lm` is the identity of the fitted masked language model, where the threat model takes one.
    """
    return with_resources(named(name, query_budget, **parameters), masked_lm)


def with_resources(threat: ThreatModel, masked_lm: str | None) -> ThreatModel:
    """The threat model with what each of its resources is in this process."""
    if threat.fits_masked_lm and masked_lm is None:
        raise ResourceError(
            f"attack {threat.name!r} takes a masked language model that a search fits on the backbone; outside of a "
            "search take 'bert-attack', or set TUNE_TICKETS_MASKED_LM to the folder of one"
        )
    own = {"toolkit": f"textattack {version('textattack')}", **_packaged(threat)}
    if threat.fits_masked_lm:
        own["masked lm"] = str(masked_lm)
    return replace(threat, resources=own | _resolved(threat))


def antonym_files() -> tuple[Path, ...]:
    """The antonym list of the package, and the one that TUNE_TICKETS_ANTONYMS names."""
    extra = os.environ.get(ANTONYMS_VARIABLE)
    if not extra:
        return (ANTONYMS_FILE,)
    if not Path(extra).is_file():
        raise ResourceError(f"{ANTONYMS_VARIABLE} names {extra!r}, which is not a file: correct or unset it")
    return (ANTONYMS_FILE, Path(extra))


def _packaged(threat: ThreatModel) -> dict[str, str]:
    """What comes with the installation."""
    encoder = f"all-MiniLM-L6-v2 sha256:{WEIGHTS_SHA256[:12]}"
    found = {}
    if threat.words == "minilm":
        found["word neighbours"] = f"input embeddings of {encoder}"
        found["polarity"] = f"vaderSentiment {version('vaderSentiment')} + sha256:{_digest(JUDGEMENTS_FILE)}"
        found["antonyms"] = " + ".join(f"sha256:{_digest(path)}" for path in antonym_files())
    if threat.words in ("minilm", "cf8"):
        found["part of speech"] = f"lemminflect {version('lemminflect')}"
    if threat.encoder == "minilm":
        found["sentence encoder"] = encoder
    if threat.stop_words == "local":
        found["stop words"] = f"scikit-learn {version('scikit-learn')} ENGLISH_STOP_WORDS"
        found["negations"] = f"sha256:{_digest(NEGATIONS_FILE)}"
    if threat.swaps == "bugs":
        found["lookalike letters"] = "Cyrillic and Latin letters, our table"
    return found


def _resolved(threat: ThreatModel) -> dict[str, str]:
    from tune_tickets.attacks.resolver import resolve

    return {name: resolve(name).identity for name in threat.needs}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
