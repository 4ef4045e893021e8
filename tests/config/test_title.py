"""The names of models in tables."""

import pytest

from tune_tickets.config.experiment import Settings
from tune_tickets.config.title import title

NO_ADVERSARY = {"kind": "none"}
MARKER = {"features": "marker", "markers": ["#", "~"]}


def debiased(loss):
    return {"debiasing": {"loss": loss, "bias": MARKER}}


@pytest.mark.parametrize(
    ("sections", "name"),
    [
        ({"method": {"kind": "finetune"}}, "finetune"),
        ({"method": {"kind": "finetune"}, "retraining": {"adversary": {"kind": "pgd"}}}, "PGD"),
        ({"method": {"kind": "finetune"}, "retraining": {"adversary": {"kind": "freelb"}}}, "FreeLB"),
        ({"method": {"kind": "finetune"}, "retraining": {"adversary": {"kind": "substitution"}}}, "Substitution"),
        ({"method": {"kind": "finetune"}, "retraining": {"adversary": {"kind": "freelb++"}}}, "FreeLB++"),
        ({"method": {"kind": "imp", "adversary": {"kind": "substitution"}}}, "imp, Substitution rounds"),
        ({"method": {"kind": "finetune"}, "retraining": {"regulariser": {"kind": "infobert"}}}, "InfoBERT"),
        (
            {
                "method": {"kind": "finetune"},
                "retraining": {"adversary": {"kind": "freelb"}, "regulariser": {"kind": "infobert"}},
            },
            "InfoBERT + FreeLB",
        ),
        ({"method": {"kind": "finetune"}, "retraining": debiased("poe")}, "PoE"),
        ({"method": {"kind": "finetune"}, "retraining": debiased("ce")}, "finetune"),
        ({"method": {"kind": "imp"}, "retraining": debiased("confidence")}, "imp + confidence"),
        (
            {"retraining": debiased("reweight") | {"adversary": {"kind": "freelb"}}},
            "earlyrobust + reweighting + FreeLB",
        ),
        ({"method": {"kind": "finetune"}, "ablation": {"weights": "reinitialised"}}, "finetune, reinitialised"),
        ({"method": {"kind": "finetune"}, "ablation": {"mask": "shuffled", "structure": "discarded"}}, "finetune"),
        ({}, "earlyrobust"),
        ({"method": {"kind": "orticket"}, "retraining": {"adversary": {"kind": "freelb"}}}, "orticket + FreeLB"),
        ({"method": {"kind": "orticket", "adversary": NO_ADVERSARY}}, "orticket, no adversary"),
        ({"method": {"kind": "orticket", "search_on": "task"}}, "orticket, on task"),
        ({"method": {"kind": "earlyrobust", "adversary": NO_ADVERSARY}}, "EarlyBERT"),
        ({"method": {"kind": "earlyrobust", "penalty_heads": 0.0, "penalty_neurons": 0.0}}, "earlyrobust, no penalty"),
        ({"method": {"kind": "robustt"}, "retraining": {"adversary": {"kind": "pgd"}}}, "robustt + PGD"),
        (
            {"method": {"kind": "robustt", "adversary": NO_ADVERSARY, "penalty": 0.0}},
            "robustt, no adversary, no penalty",
        ),
        # Magnitudes know neither adversary nor penalty.
        ({"method": {"kind": "robustt", "scores": "magnitude", "adversary": NO_ADVERSARY}}, "robustt, magnitude"),
        ({"method": {"kind": "robustt", "grouping": "structured"}}, "robustt, structured"),
        ({"method": {"kind": "imp"}}, "imp"),
        ({"method": {"kind": "imp", "adversary": {"kind": "freelb"}}}, "imp, FreeLB rounds"),
        ({"method": {"kind": "random"}, "ablation": {"structure": "discarded"}}, "random, no structure"),
        ({"ablation": {"mask": "shuffled", "weights": "reinitialised"}}, "earlyrobust, shuffled, reinitialised"),
    ],
)
def test_models_are_called_as_in_the_papers(sections, name):
    assert title(Settings.model_validate(sections)) == name
