"""From a threat model to a TextAttack attack. Importing this module imports TextAttack."""

import math
from functools import cache
from typing import Any

import torch

from tune_tickets.attacks.encoder import load_encoder
from tune_tickets.attacks.neighbours import Neighbours
from tune_tickets.attacks.parts import (
    Bugs,
    LookalikeSwap,
    NeighbourSwap,
    OnlyColumn,
    ProtectedWords,
    SentenceSimilarity,
)
from tune_tickets.attacks.resources import import_textattack
from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.attacks.victim import Victim

import_textattack()

from textattack import Attack  # noqa: E402
from textattack.constraints.pre_transformation import RepeatModification  # noqa: E402
from textattack.goal_functions import UntargetedClassification  # noqa: E402
from textattack.models.wrappers import ModelWrapper  # noqa: E402
from textattack.search_methods import GreedyWordSwapWIR  # noqa: E402
from textattack.transformations import (  # noqa: E402
    WordSwapNeighboringCharacterSwap,
    WordSwapRandomCharacterDeletion,
    WordSwapRandomCharacterInsertion,
)

ModelWrapper.register(Victim)

_UNSPLIT = 2**30  # the victim makes its own batches, sorted by length


def build_attack(victim: Victim, threat: ThreatModel, column: int, query_budget: int | None) -> Any:  # noqa: ANN401
    """The attack of that threat model on the victim, allowed to change one column."""
    encoder = load_encoder(victim.model.device)
    constraints = [
        RepeatModification(),
        ProtectedWords(),
        OnlyColumn(column),
        SentenceSimilarity(encoder, column, threat.min_similarity, threat.window),
    ]
    goal = UntargetedClassification(victim, query_budget=query_budget or math.inf, model_batch_size=_UNSPLIT)
    swap = NeighbourSwap(_neighbours(victim.model.device, threat.min_word_cosine), threat.max_candidates)
    transformation = swap if threat.recipe == "textfooler" else _bugs(swap)
    return Attack(goal, constraints, transformation, GreedyWordSwapWIR(wir_method="delete"))


def begin_row(attack: Any, seed: int) -> None:  # noqa: ANN401 - textattack.Attack
    """Tell the attack which row comes next, by the seed of its bugs."""
    if isinstance(attack.transformation, Bugs):
        attack.transformation.row_seed = seed


def _bugs(swap: NeighbourSwap) -> Bugs:
    """TextBugger's five bugs: a space put in, a letter left out, two letters swapped, a lookalike, a near word."""
    inner = {"random_one": True, "skip_first_char": True, "skip_last_char": True}
    return Bugs(
        [
            WordSwapRandomCharacterInsertion(letters_to_insert=" ", **inner),
            WordSwapRandomCharacterDeletion(**inner),
            WordSwapNeighboringCharacterSwap(**inner),
            LookalikeSwap(),
            swap,
        ]
    )


@cache
def _neighbours(device: torch.device, min_cosine: float) -> Neighbours:
    return Neighbours(load_encoder(device), min_cosine)
