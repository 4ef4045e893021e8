"""Threat models that TextAttack runs: its search, our goal, parts and resources. Importing this imports TextAttack."""

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch

from tune_tickets.attacks import parts
from tune_tickets.attacks.masked_words import MaskedLM, MaskedWords
from tune_tickets.attacks.neighbours import ListedNeighbours, is_substitute, load_encoder
from tune_tickets.attacks.parts import (
    Bugs,
    LookalikeSwap,
    MaxSwaps,
    NeighbourSwap,
    OnlyColumn,
    ProtectedWords,
    SentenceSimilarity,
    quick_words,
)
from tune_tickets.attacks.records import Found, Status, Tally
from tune_tickets.attacks.substitutes import neighbours, union_of
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.attacks.toolkit import import_textattack
from tune_tickets.attacks.victim import Victim, margins
from tune_tickets.attacks.word_resources import neighbour_lists, nltk_stop_words
from tune_tickets.errors import ResourceError

import_textattack()

from textattack import Attack  # noqa: E402
from textattack.attack_recipes import TextFoolerJin2019  # noqa: E402
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
"""Entries in the caches of one attack. Stock has far more, allocated for every example."""
_MASKED_LM_WORDS = 8
"""Words of a masked language model next to other sources, as in bert-attack/minilm."""

_STATUS: dict[str, Status] = {
    "FailedAttackResult": "failed",
    "SuccessfulAttackResult": "successful",
    "SkippedAttackResult": "skipped",
}


class _TalliedAttack(Attack):  # type: ignore[misc]
    """The stock attack, which also counts candidates."""

    tally: Tally

    def _filter_transformations_uncached(self, transformed_texts: list[Any], *texts: Any, **named: Any) -> list[Any]:  # noqa: ANN401
        self.tally.candidates += len(transformed_texts)
        return list(super()._filter_transformations_uncached(transformed_texts, *texts, **named))


class _ProbabilityGoal(UntargetedClassification):  # type: ignore[misc]
    """The stock goal and score, 1 - p. Stock takes logits that happen to sum to 1 for probabilities."""

    def _process_model_outputs(self, inputs: list[Any], scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(scores, dim=1)


class MarginGoal(UntargetedClassification):  # type: ignore[misc]
    """The stock goal with the score 1 - m / m0: m is the margin of the logits, m0 that of the original text.

    0 at the start, 1 at the decision boundary. Multiplying all logits by a constant changes nothing, so that a model
    cannot hide behind its calibration (Raina et al. 2024). For two classes it orders texts as 1 - p does.
    """

    def init_attack_example(self, attacked_text: Any, ground_truth_output: int) -> Any:  # noqa: ANN401
        """Start with a row: its margin is the unit of the score."""
        self._unit: float | None = None
        return super().init_attack_example(attacked_text, ground_truth_output)

    def _process_model_outputs(self, inputs: list[Any], scores: torch.Tensor) -> torch.Tensor:
        return scores

    def _get_score(self, model_output: torch.Tensor, _: Any) -> float:  # noqa: ANN401 - AttackedText
        margin = float(margins(model_output.unsqueeze(0), self.ground_truth_output))
        if self._unit is None:  # the first text is the original
            self._unit = abs(margin) or 1.0
        return 1.0 - margin / self._unit


_GOALS = {"margin": MarginGoal, "probability": _ProbabilityGoal}


@dataclass(frozen=True)
class Recipe:
    """A threat model of TextAttack's parts against one victim. All rows share what the parts have learnt of texts."""

    victim: Any
    threat: ThreatModel
    constraints: list[Any]
    transformation: Any
    query_budget: int | None
    tally: Tally

    @classmethod
    def of(
        cls,
        victim: Victim,
        threat: ThreatModel,
        column: int,
        query_budget: int | None = None,
        masked_lm: MaskedLM | None = None,
    ) -> "Recipe":
        """Build the parts of the threat model, which may change one column.

        Raises:
            ResourceError: A resource of the threat model is missing.
        """
        tally = Tally()
        constraints = [_counted(constraint, tally) for constraint in _constraints(victim, threat, column)]
        before = [RepeatModification(), *_left_alone(threat), OnlyColumn(column)]
        transformation = _transformation(victim, threat, masked_lm)
        return cls(victim, threat, before + constraints, transformation, query_budget, tally)

    def running(self) -> AbstractContextManager[None]:
        """Hold while rows are attacked: TextAttack splits texts faster."""
        return quick_words()

    def prepare(self, texts: Iterable[str]) -> None:
        """Look up at once what the attacks would look up word by word."""
        for swap in getattr(self.transformation, "transformations", [self.transformation]):
            if isinstance(swap, NeighbourSwap):
                swap.prepare(texts)

    def attack(self, columns: Mapping[str, str], label: int, seed: int) -> Found:
        """Attack one row with TextAttack.

        Args:
            columns: The texts of the row by column, as far as the model reads them.
            label: The true class.
            seed: The seed of the row, which decides its bugs.

        Returns:
            The text that the search found, and whether it fools the model.
        """
        result = self._attack(seed).attack(columns, label)
        before, after = result.original_result, result.perturbed_result
        changed = after.attacked_text.tokenizer_input
        return Found(
            status=_STATUS[type(result).__name__],
            texts=(changed,) if isinstance(changed, str) else tuple(changed),
            prediction=int(before.output),
            perturbed_prediction=int(after.output),
            queries=int(result.num_queries),
            classes=len(before.raw_output),
            words=(before.attacked_text.words, after.attacked_text.words),
        )

    def _attack(self, row_seed: int) -> Attack:
        """Return an attack for one row."""
        transformation = copy(self.transformation)
        if isinstance(transformation, Bugs):
            transformation.row_seed = row_seed
        goal = _GOALS[self.threat.score](
            self.victim, query_budget=self.query_budget or math.inf, model_batch_size=_UNSPLIT
        )
        search = GreedyWordSwapWIR(wir_method=self.threat.ranking)
        attack = _TalliedAttack(goal, self.constraints, transformation, search, _REMEMBERED, _REMEMBERED)
        attack.tally = self.tally
        return attack


def _counted(constraint: Any, tally: Tally) -> Any:  # noqa: ANN401 - textattack.Constraint
    check, name = constraint.call_many, type(constraint).__name__

    def call_many(texts: list[Any], reference: Any) -> list[Any]:  # noqa: ANN401 - AttackedText
        kept: list[Any] = check(texts, reference)
        tally.rejected[name] += len(texts) - len(kept)
        return kept

    constraint.call_many = call_many
    return constraint


def _left_alone(threat: ThreatModel) -> list[Any]:
    """Return the constraint that keeps stop words, if there is one."""
    if threat.stop_words == "none":
        return []
    if threat.stop_words == "local":
        return [ProtectedWords()]
    words = nltk_stop_words() if threat.stop_words == "nltk" else _textfooler_stop_words()
    return [StopwordModification(stopwords=words)]


def _textfooler_stop_words() -> frozenset[str]:
    """Return the list that the stock recipe holds in its code."""
    constants: list[tuple[str, ...]] = [
        each for each in TextFoolerJin2019.build.__code__.co_consts if isinstance(each, tuple)
    ]
    longest: tuple[str, ...] = max(constants, key=len)
    return frozenset(longest)


def _constraints(victim: Victim, threat: ThreatModel, column: int) -> list[Any]:
    """Return the constraints in the order of the stock recipes, cheap ones first."""
    found: list[Any] = []
    if "counter-fitted" in threat.sources and threat.min_word_cosine is not None:
        embedding = parts.counter_fitted_embedding()
        found.append(WordEmbeddingDistance(embedding=embedding, min_cos_sim=threat.min_word_cosine))
    if threat.tagger:
        found.append(parts.TaggedPartOfSpeech(allow_verb_noun_swap=True))
    if threat.max_modified is not None:
        found.append(MaxWordsPerturbed(max_percent=threat.max_modified))
    if threat.max_words is not None:
        found.append(MaxSwaps(threat.max_words))
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
    if threat.swaps in parts.UNSEEN:
        return parts.UNSEEN[threat.swaps]()
    words = _words(victim, threat, masked_lm)
    if threat.swaps == "words":
        return words
    return (Bugs if threat.steady_bugs else CompositeTransformation)(_bugs(words))


def _words(victim: Victim, threat: ThreatModel, masked_lm: MaskedLM | None) -> Any:  # noqa: ANN401
    count = threat.max_candidates or 0
    if len(threat.sources) > 1:
        return _union(victim, threat, masked_lm)
    if threat.words == "wordnet":
        return parts.WordNetSwap()
    if threat.words == "masked-lm":
        return MaskedWords(_given(masked_lm, threat), count)
    if threat.words == "counter-fitted":
        return WordSwapEmbedding(max_candidates=count, embedding=parts.counter_fitted_embedding())
    if threat.words == "cf8":
        return NeighbourSwap(ListedNeighbours(neighbour_lists()), count)
    return NeighbourSwap(neighbours(victim.model.device, threat.min_word_cosine or 0.0), count)


def _union(victim: Victim, threat: ThreatModel, masked_lm: MaskedLM | None) -> Any:  # noqa: ANN401
    """Return the substitutes of all sources. Opposites are kept out, whichever source proposes them."""
    swap = NeighbourSwap(union_of(threat, victim.model.device))
    if "masked-lm" not in threat.sources:
        return swap
    return CompositeTransformation([swap, MaskedWords(_given(masked_lm, threat), _MASKED_LM_WORDS, is_substitute)])


def _given(masked_lm: MaskedLM | None, threat: ThreatModel) -> MaskedLM:
    if masked_lm is None:
        raise ResourceError(f"attack {threat.name!r} was given no masked language model")
    return masked_lm


def _bugs(words: Any) -> list[Any]:  # noqa: ANN401 - textattack.WordSwap
    """Return TextBugger's five bugs: insert a space, delete a letter, swap two letters, a lookalike, a near word."""
    inner = {"random_one": True, "skip_first_char": True, "skip_last_char": True}
    return [
        WordSwapRandomCharacterInsertion(letters_to_insert=" ", **inner),
        WordSwapRandomCharacterDeletion(**inner),
        WordSwapNeighboringCharacterSwap(**inner),
        LookalikeSwap(),
        words,
    ]
