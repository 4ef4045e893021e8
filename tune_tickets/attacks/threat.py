"""Threat models by name: recipe, parameters and the identity of every resource. `recipes` and `charmer` run them."""

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

RULES_VERSION = 3
"""Part of every fingerprint. Raise it when the code of the attacks changes what the same parameters do."""

_SETTABLE = (
    *("max_candidates", "min_word_cosine", "min_similarity", "window", "max_modified"),
    *("max_words", "max_edits", "slots", "focus", "spare"),
)
"""What an experiment may change in a threat model. RobustT Table 6 calls the first ones N, S and M."""

_ALPHABET = " abcdefghijklmnopqrstuvwxyz.,'!?-"
"""The characters that Charmer writes. Fixed, so that a name means the same on every data set."""


@dataclass(frozen=True)
class ThreatModel:
    """What an attacker may do. Two metrics are comparable only if their fingerprints are equal."""

    name: str
    swaps: Literal["words", "bugs", "letters", "characters", "homoglyphs", "invisible", "deletions", "reorderings"] = (
        "words"
    )
    """Words by words; the same and TextBugger's bugs; DeepWordBug's typing errors; Charmer's edits of single
    characters; or one of the four parts of Bad Characters."""
    score: Literal["margin", "probability"] = "margin"
    """What the attack climbs: the margin of the logits, which no temperature can hide, or 1 - p as stock TextAttack."""
    steady_bugs: bool = False
    """Whether a word in a row gets the same bugs whatever the victim ranks first. Stock draws them in order of use."""
    words: str | None = None
    """Sources of substitutes, joined by "+": counter-fitted, cf8, minilm, masked-lm, wordnet, inflections."""
    ranking: Literal["delete", "unk", "weighted-saliency"] = "delete"
    """How the words to change first are found."""
    stop_words: Literal["textfooler", "nltk", "local", "negations", "none"] = "local"
    """Which list of words is never changed. The local one also holds negations."""
    tagger: bool = False
    """Whether NLTK's tagger must give a word and its substitute the same part of speech."""
    encoder: Literal["use", "minilm"] | None = None
    """Which sentence encoder compares the meaning before and after."""
    angular: bool = False
    """Whether similarity is computed from the angle instead of the cosine."""
    against_current: bool = False
    """Whether a change is compared with the text it was made in, not with the original."""
    short_texts_pass: bool = False
    """Whether texts shorter than the window are not compared at all."""
    max_candidates: int | None = None
    """Substitutes tried per word; with several sources, neighbours tried per word."""
    min_word_cosine: float | None = None
    """Smallest cosine of a word and its substitute."""
    min_similarity: float | None = None
    """Smallest similarity of the sentence embeddings of the original and the changed window."""
    window: int | None = None
    """Number of words around the change whose meaning is compared; stock TextFooler takes 15. None: all."""
    max_modified: float | None = None
    """Largest share of words that may change."""
    max_words: int | None = None
    """Largest number of words that may change."""
    max_edits: int | None = None
    """Largest Levenshtein distance; for Charmer the number of edits k."""
    slots: int | None = None
    """Charmer's n: the slots in which every character is tried."""
    focus: int | None = None
    """Charmer: probe the slots of this many words only, those whose deletion hurts most. None: all slots."""
    alphabet: str | None = None
    """The characters that Charmer tries, besides deletion."""
    spare: bool | None = None
    """Whether Charmer keeps short words, the first and last letters of words, and edits each word once."""
    query_budget: int | None = None
    resources: dict[str, str] = field(default_factory=dict, hash=False)
    """The identity of each resource. A substitute has another identity, hence another fingerprint."""

    @property
    def fingerprint(self) -> str:
        """The first 16 hex digits of the sha256 over everything that decides what the attack does."""
        content = {**asdict(self), "rules": RULES_VERSION}
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def sources(self) -> tuple[str, ...]:
        """Where substitutes come from, in the order in which they are tried."""
        return tuple(self.words.split("+")) if self.words else ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The resources that do not come with the installation, by the names `tune-tickets fetch` knows."""
        wanted = {
            "counter-fitted vectors": "counter-fitted" in self.sources,
            "counter-fitted neighbours": "cf8" in self.sources,
            "masked lm": "masked-lm" in self.sources and self.encoder == "use",
            "wordnet": "wordnet" in self.sources,
            "stop words": self.stop_words == "nltk",
            "tagger": self.tagger,
            "universal tagset": self.tagger,
            "universal sentence encoder": self.encoder == "use",
        }
        return tuple(name for name, needed in wanted.items() if needed)

    @property
    def fits_masked_lm(self) -> bool:
        """Whether a stage fits its masked language model on the backbone."""
        return "masked-lm" in self.sources and "masked lm" not in self.needs


# The papers' names stand for the stock recipes of TextAttack, which score by probability.
_STOCK = (
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
)

# After the slash: variants that run on what an installation has.
_NEAR = ThreatModel(
    "textfooler/minilm",
    words="minilm",
    encoder="minilm",
    max_candidates=8,
    min_word_cosine=0.37,
    min_similarity=0.8,
    window=9,  # a third cheaper than 15
)
_UNION = replace(_NEAR, name="words/near50-forms", words="minilm+inflections", max_candidates=50, min_word_cosine=0.3)
_LOCAL = (
    _NEAR,
    replace(_NEAR, name="textbugger/minilm", swaps="bugs", steady_bugs=True, max_candidates=5),
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
    _UNION,
    *(
        replace(_UNION, name=f"{_UNION.name}-{name}", words=f"{_UNION.words}+{sources}")
        for name, sources in (
            ("wordnet", "wordnet"),
            ("cf8", "cf8"),
            ("wordnet-cf8", "wordnet+cf8"),
            ("mlm", "masked-lm"),
        )
    ),
)

# Charmer as published: up to 10 edits in the 20 best slots; the fast one takes the best slot only. With a focus (ours)
# it probes a few important words except negations, which takes less than half of the queries.
_CHARMERS = tuple(
    ThreatModel(
        f"{name}{suffix}",
        swaps="characters",
        stop_words="none" if focus is None else "negations",
        max_edits=edits,
        slots=slots,
        alphabet=_ALPHABET,
        focus=focus,
        spare=False,
    )
    for name, slots, focus in (("charmer", 20, None), ("charmer-fast", 1, None), ("charmer-focus", 3, 3))
    for suffix, edits in (("", 10), ("/k1", 1), ("/k2", 2))
)
_SEEN_AS_BEFORE: tuple[Literal["homoglyphs", "invisible", "deletions", "reorderings"], ...] = (
    "homoglyphs",
    "invisible",
    "deletions",
    "reorderings",
)
_BAD_CHARACTERS = tuple(
    ThreatModel(f"bad-characters/{part}", swaps=part, stop_words="none", max_words=2) for part in _SEEN_AS_BEFORE
)
_ALL = (*(replace(threat, score="probability") for threat in _STOCK), *_LOCAL, *_CHARMERS, *_BAD_CHARACTERS)
THREATS: dict[str, ThreatModel] = {threat.name: threat for threat in _ALL}
KNOWN_THREATS: tuple[str, ...] = tuple(THREATS)


def named(name: str, query_budget: int | None = None, **parameters: float | int | None) -> ThreatModel:
    """Return the threat model of that name with changed parameters. Resources are not looked up."""
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
    """Return the threat models of an experiment. Resources are not looked up."""
    return [threat_of(attack, evaluation.query_budget) for attack in evaluation.attacks]


def threat_of(attack: str | Attack, query_budget: int | None) -> ThreatModel:
    """Return the threat model that an experiment names, with its parameters."""
    if isinstance(attack, str):
        return named(attack, query_budget)
    return named(attack.name, query_budget, **attack.parameters())


def get_threat(
    name: str, query_budget: int | None = None, masked_lm: str | None = None, **parameters: float | int | None
) -> ThreatModel:
    """Return the threat model with the resources found on this machine, which are part of its fingerprint.

    `masked_lm` is the identity of the fitted masked language model, if the threat model needs one.
    """
    return with_resources(named(name, query_budget, **parameters), masked_lm)


def with_resources(threat: ThreatModel, masked_lm: str | None) -> ThreatModel:
    """Return the threat model with the identities of its resources in this process."""
    if threat.fits_masked_lm and masked_lm is None:
        raise ResourceError(
            f"attack {threat.name!r} needs a masked language model that a search fits on the backbone; outside a "
            "search use 'bert-attack' with TUNE_TICKETS_MASKED_LM set to the folder of such a model"
        )
    own = _packaged(threat)
    if threat.swaps != "characters":  # Charmer is our own code
        own["toolkit"] = f"textattack {version('textattack')}"
    if threat.fits_masked_lm:
        own["masked lm"] = str(masked_lm)
    return replace(threat, resources=own | _resolved(threat))


def antonym_files() -> tuple[Path, ...]:
    """Return the antonym list of the package, and the file that TUNE_TICKETS_ANTONYMS names."""
    extra = os.environ.get(ANTONYMS_VARIABLE)
    if not extra:
        return (ANTONYMS_FILE,)
    if not Path(extra).is_file():
        raise ResourceError(f"{ANTONYMS_VARIABLE} names {extra!r}, which is not a file: correct or unset it")
    return (ANTONYMS_FILE, Path(extra))


def _packaged(threat: ThreatModel) -> dict[str, str]:
    """Return the resources that come with the installation."""
    encoder = f"all-MiniLM-L6-v2 sha256:{WEIGHTS_SHA256[:12]}"
    found = {}
    if "minilm" in threat.sources:
        found["word neighbours"] = f"input embeddings of {encoder}"
        found["polarity"] = f"vaderSentiment {version('vaderSentiment')} + sha256:{_digest(JUDGEMENTS_FILE)}"
        found["antonyms"] = " + ".join(f"sha256:{_digest(path)}" for path in antonym_files())
    if "minilm" in threat.sources or "cf8" in threat.sources:
        found["part of speech"] = f"lemminflect {version('lemminflect')}"
    if threat.encoder == "minilm":
        found["sentence encoder"] = encoder
    if threat.stop_words == "local":
        found["stop words"] = f"scikit-learn {version('scikit-learn')} ENGLISH_STOP_WORDS"
    if threat.stop_words in ("local", "negations"):
        found["negations"] = f"sha256:{_digest(NEGATIONS_FILE)}"
    if threat.swaps in ("bugs", "homoglyphs"):
        found["lookalike letters"] = "Cyrillic and Latin letters, our table"
    return found


def _resolved(threat: ThreatModel) -> dict[str, str]:
    from tune_tickets.attacks.resolver import resolve

    return {name: resolve(name).identity for name in threat.needs}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
