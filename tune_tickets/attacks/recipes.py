"""From a threat model to TextAttack attacks, one per row. Importing this module imports TextAttack."""

import math
from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from tune_tickets.attacks import parts
from tune_tickets.attacks.masked_words import MaskedLM, MaskedWords
from tune_tickets.attacks.neighbours import ListedNeighbours, Neighbours, load_encoder
from tune_tickets.attacks.parts import (
    Bugs,
    LookalikeSwap,
    NeighbourSwap,
    OnlyColumn,
    ProtectedWords,
    SentenceSimilarity,
)
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.attacks.toolkit import import_textattack
from tune_tickets.attacks.victim import Victim
from tune_tickets.attacks.word_resources import neighbour_lists, nltk_stop_words
from tune_tickets.errors import ResourceError

import_textattack()

from textattack import Attack  # noqa: E402
from textattack.constraints.overlap import LevenshteinEditDistance, MaxWordsPerturbed  # noqa: E402
from textattack.constraints.pre_transformation import RepeatModification, StopwordModification  # noqa: E402
from textattack.constraints.semantics import WordEmbeddingDistance  # noqa: E402
from textattack.goal_functions import UntargetedClassification  # noqa: E402
from textattack.models.wrappers import ModelWrapper  # noqa: E402
from textattack.search_methods import GreedyWordSwapWIR  # noqa: E402
from textattack.transformations import (  # noqa: E402
    CompositeTransformation,
    WordSwapEmbedding,
    WordSwapNeighboringCharacterSwap,
    WordSwapRandomCharacterDeletion,
    WordSwapRandomCharacterInsertion,
    WordSwapRandomCharacterSubstitution,
)

ModelWrapper.register(Victim)

_UNSPLIT = 2**30  # the victim makes its own batches, sorted by length
_REMEMBERED = 2**10
"""Entries of the caches that an attack has for itself; stock is far more, made anew for every example."""


@dataclass
class _Tally:
    """What became of the candidates of an attack: how many were proposed, and which constraint rejected how many."""

    candidates: int = 0
    rejected: Counter[str] = field(default_factory=Counter)


class _TalliedAttack(Attack):  # type: ignore[misc]
    """The stock attack, keeping a tally."""

    tally: _Tally

    def _filter_transformations_uncached(self, transformed_texts: list[Any], *texts: Any, **named: Any) -> list[Any]:  # noqa: ANN401
        self.tally.candidates += len(transformed_texts)
        return list(super()._filter_transformations_uncached(transformed_texts, *texts, **named))


@dataclass(frozen=True)
class _AttackMaker:
    """The parts of a threat model against one victim. What they have learnt of texts is shared by all rows."""

    victim: Any
    constraints: list[Any]
    transformation: Any
    ranking: str
    query_budget: int | None
    tally: _Tally

    def prepare(self, texts: Iterable[str]) -> None:
        """Look up at once what the attacks would look up word by word."""
        for swap in getattr(self.transformation, "transformations", [self.transformation]):
            if isinstance(swap, NeighbourSwap):
                swap.prepare(texts)

    def attack(self, row_seed: int) -> Attack:
        """An attack of its own for a row."""
        transformation = copy(self.transformation)
        if isinstance(transformation, Bugs):
            transformation.row_seed = row_seed
        goal = UntargetedClassification(
            self.victim, query_budget=self.query_budget or math.inf, model_batch_size=_UNSPLIT
        )
        search = GreedyWordSwapWIR(wir_method=self.ranking)
        attack = _TalliedAttack(goal, self.constraints, transformation, search, _REMEMBERED, _REMEMBERED)
        attack.tally = self.tally
        return attack


def attack_maker(
    victim: Victim, threat: ThreatModel, column: int, query_budget: int | None, masked_lm: MaskedLM | None = None
) -> _AttackMaker:
    """The parts of the threat model, allowed to change one column."""
    tally = _Tally()
    constraints = [_counted(constraint, tally) for constraint in _constraints(victim, threat, column)]
    before: list[Any] = [RepeatModification(), _left_alone(threat), OnlyColumn(column)]
    return _AttackMaker(
        victim, before + constraints, _transformation(victim, threat, masked_lm), threat.ranking, query_budget, tally
    )


def _counted(constraint: Any, tally: _Tally) -> Any:  # noqa: ANN401 - textattack.Constraint
    check, name = constraint.call_many, type(constraint).__name__

    def call_many(texts: list[Any], reference: Any) -> list[Any]:  # noqa: ANN401 - AttackedText
        kept: list[Any] = check(texts, reference)
        tally.rejected[name] += len(texts) - len(kept)
        return kept

    constraint.call_many = call_many
    return constraint


def _left_alone(threat: ThreatModel) -> Any:  # noqa: ANN401 - textattack.Constraint
    if threat.stop_words == "local":
        return ProtectedWords()
    words = nltk_stop_words() if threat.stop_words == "nltk" else parts.textfooler_stop_words()
    return StopwordModification(stopwords=words)


def _constraints(victim: Victim, threat: ThreatModel, column: int) -> list[Any]:
    """In the order of the stock recipes: what is cheap first."""
    found: list[Any] = []
    if threat.words == "counter-fitted" and threat.min_word_cosine is not None:
        embedding = parts.counter_fitted_embedding()
        found.append(WordEmbeddingDistance(embedding=embedding, min_cos_sim=threat.min_word_cosine))
    if threat.tagger:
        found.append(parts.TaggedPartOfSpeech(allow_verb_noun_swap=True))
    if threat.max_modified is not None:
        found.append(MaxWordsPerturbed(max_percent=threat.max_modified))
    if threat.max_edits is not None:
        found.append(LevenshteinEditDistance(threat.max_edits))
    if threat.encoder == "minilm":
        encoder = load_encoder(victim.model.device, victim.exact)
        found.append(SentenceSimilarity(encoder, column, threat.min_similarity or 0.0, threat.window))
    elif threat.encoder == "use":
        found.append(
            parts.EncoderSimilarity(
                parts.universal_encoder(),
                threshold=threat.min_similarity,
                metric="angular" if threat.angular else "cosine",
                compare_against_original=not threat.against_current,
                window_size=threat.window,
                skip_text_shorter_than_window=threat.short_texts_pass,
            )
        )
    return found


def _transformation(victim: Victim, threat: ThreatModel, masked_lm: MaskedLM | None) -> Any:  # noqa: ANN401
    if threat.swaps == "letters":
        return CompositeTransformation(
            [
                WordSwapNeighboringCharacterSwap(),
                WordSwapRandomCharacterSubstitution(),
                WordSwapRandomCharacterDeletion(),
                WordSwapRandomCharacterInsertion(),
            ]
        )
    words = _words(victim, threat, masked_lm)
    if threat.swaps == "words":
        return words
    return (Bugs if threat.steady_bugs else CompositeTransformation)(_bugs(words))


def _words(victim: Victim, threat: ThreatModel, masked_lm: MaskedLM | None) -> Any:  # noqa: ANN401
    count = threat.max_candidates or 0
    if threat.words == "wordnet":
        return parts.WordNetSwap()
    if threat.words == "masked-lm":
        if masked_lm is None:
            raise ResourceError(f"attack {threat.name!r} was given no masked language model")
        return MaskedWords(masked_lm, count)
    if threat.words == "counter-fitted":
        return WordSwapEmbedding(max_candidates=count, embedding=parts.counter_fitted_embedding())
    if threat.words == "cf8":
        return NeighbourSwap(ListedNeighbours(neighbour_lists()), count)
    return NeighbourSwap(_neighbours(victim.model.device, threat.min_word_cosine or 0.0), count)


def _bugs(words: Any) -> list[Any]:  # noqa: ANN401 - textattack.WordSwap
    """TextBugger's five bugs: a space put in, a letter left out, two letters swapped, a lookalike, a near word."""
    inner = {"random_one": True, "skip_first_char": True, "skip_last_char": True}
    return [
        WordSwapRandomCharacterInsertion(letters_to_insert=" ", **inner),
        WordSwapRandomCharacterDeletion(**inner),
        WordSwapNeighboringCharacterSwap(**inner),
        LookalikeSwap(),
        words,
    ]


@cache
def _neighbours(device: torch.device, min_cosine: float) -> Neighbours:
    return Neighbours(load_encoder(device), min_cosine)
