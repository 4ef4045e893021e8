"""Run unmodified TextAttack with the parts of a threat model, as the baseline of our executor."""

import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from copy import copy
from io import StringIO
from typing import TYPE_CHECKING, Any

import torch

from tune_tickets.attacks.neighbours import SentenceEncoder
from tune_tickets.attacks.run import AttackRow, row_seed
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.attacks.toolkit import import_textattack
from tune_tickets.attacks.victim import Victim
from tune_tickets.models.families import family_of
from tune_tickets.models.source import bundled_encoder_path

if TYPE_CHECKING:
    from tune_tickets.attacks.masked_words import MaskedLM

Result = tuple[str, str, int]
"""Status, text and queries of a row."""


class _PlainEncoder(SentenceEncoder):
    """Like the constraint of TextAttack: encodes all windows of all candidates every time."""

    def __init__(self) -> None:
        from sentence_transformers import SentenceTransformer

        self._plain = SentenceTransformer(str(bundled_encoder_path()), device="cpu")

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        vectors = self._plain.encode([text for pair in zip(*pairs, strict=True) for text in pair])
        half = len(pairs)
        return [float(a @ b) for a, b in zip(vectors[:half], vectors[half:], strict=True)]


def by_stock(
    victim: Victim,
    threat: ThreatModel,
    rows: list[AttackRow],
    seed: int,
    masked_lm: "MaskedLM | None",
    fixed: bool,
) -> tuple[float, list[Result]]:
    """Return seconds and results of TextAttack's own Attacker. `fixed` pads a batch only to its longest text."""
    import_textattack()
    from textattack import Attack, AttackArgs, Attacker
    from textattack.datasets import Dataset
    from textattack.goal_functions import UntargetedClassification
    from textattack.models.wrappers import HuggingFaceModelWrapper
    from textattack.search_methods import GreedyWordSwapWIR
    from textattack.transformations import WordSwapMaskedLM

    from tune_tickets.attacks.parts import Bugs, SentenceSimilarity
    from tune_tickets.attacks.recipes import Recipe

    maker = Recipe.of(victim, threat, 0, None, masked_lm)
    transformation = maker.transformation
    if masked_lm is not None:
        parts: dict[str, Any] = {"masked_language_model": masked_lm.model, "tokenizer": masked_lm.tokenizer}
        parts |= {
            "max_length": min(512, family_of(masked_lm.model).positions(masked_lm.model) or 512),
            "max_candidates": threat.max_candidates,
        }
        transformation = WordSwapMaskedLM("bert-attack", **parts)
    plain = _PlainEncoder()
    for constraint in maker.constraints:
        if isinstance(constraint, SentenceSimilarity):
            constraint._encoder = plain
    tokenizer = copy(victim.tokenizer)
    tokenizer.model_max_length = min(tokenizer.model_max_length, victim.model.config.max_position_embeddings)

    class Longest(HuggingFaceModelWrapper):  # type: ignore[misc]
        """The wrapper of TextAttack, but padding only to the longest text of the batch."""

        @torch.no_grad()
        def __call__(self, texts: list[str]) -> torch.Tensor:
            inputs = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
            logits: torch.Tensor = self.model(**inputs).logits
            return logits

    wrapper = (Longest if fixed else HuggingFaceModelWrapper)(victim.model, tokenizer)
    results, sink = [], StringIO()
    started = time.perf_counter()
    for row in rows:
        own = row_seed(seed, row.index)
        if isinstance(transformation, Bugs):
            transformation.row_seed = own
        goal = UntargetedClassification(wrapper)
        attack = Attack(goal, maker.constraints, transformation, GreedyWordSwapWIR(wir_method=threat.ranking))
        arguments = AttackArgs(num_examples=1, disable_stdout=True, silent=True, random_seed=own)
        with redirect_stdout(sink), redirect_stderr(sink):
            [result] = Attacker(attack, Dataset([(row.texts[0], row.label)]), arguments).attack_dataset()
        kind = type(result).__name__.removesuffix("AttackResult").lower()
        results.append((kind, result.perturbed_result.attacked_text.text, int(result.num_queries)))
    return time.perf_counter() - started, results
