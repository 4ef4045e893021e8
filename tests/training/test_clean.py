"""Clean accuracy, and agreement beyond chance, which a constant predictor does not have."""

import pytest
import torch

from tune_tickets.training.evaluation import agreement, clean_figures

LABELS = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])


def test_accuracy_and_majority_share_by_hand():
    figures = clean_figures(torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 1, 0]), LABELS)
    assert (figures.rows, figures.accuracy, figures.majority_share) == (10, 80.0, 60.0)
    # Wilson at 8 of 10 with z = 1.959964: centre (0.8 + z^2/20) / (1 + z^2/10), worked out by hand.
    assert figures.interval == (pytest.approx(49.02, abs=0.01), pytest.approx(94.33, abs=0.01))


def test_a_constant_predictor_agrees_no_better_than_chance():
    assert agreement(torch.ones(10, dtype=torch.long), LABELS) == pytest.approx(0.0)
    assert clean_figures(torch.ones(10, dtype=torch.long), LABELS).majority_share == 100.0


def test_weighted_f1_by_hand():
    # Always 1 on 4 and 6 rows: F1 is 0 of class 0, 2 x 6 / (6 + 10) = 0.75 of class 1, and 0.6 x 0.75 of both.
    assert clean_figures(torch.ones(10, dtype=torch.long), LABELS).weighted_f1 == pytest.approx(45.0)
    # 3 of 4 and 5 of 6 right, with 4 and 6 answers: 0.4 x 6 / 8 + 0.6 x 10 / 12.
    figures = clean_figures(torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 1, 0]), LABELS)
    assert figures.weighted_f1 == pytest.approx(80.0)


def test_agreement_by_hand():
    # 8 of 10 right; predictions 4:6, labels 4:6, so chance is 0.16 + 0.36 = 0.52 and kappa (0.8 - 0.52) / 0.48.
    predicted = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 1, 0])
    assert agreement(predicted, LABELS) == pytest.approx((0.8 - 0.52) / 0.48)
    assert agreement(LABELS, LABELS) == pytest.approx(1.0)
    assert agreement(torch.zeros(3, dtype=torch.long), torch.zeros(3, dtype=torch.long)) == 0.0


def test_a_choice_among_some_classes_leaves_the_others_out(tiny_backbone):
    import torch

    from tune_tickets.config.task import Model
    from tune_tickets.models.backbone import load_backbone
    from tune_tickets.training.batches import encode
    from tune_tickets.training.evaluation import predict

    model, tokenizer = load_backbone(Model(source=str(tiny_backbone)), ("a", "b", "c"), seed=0)
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([9.0, 0.0, 5.0]))  # a before c before b, whatever the text
    rows = encode(tokenizer, [("a film",), ("the plot",)], [0, 1], 8)
    assert predict(model, rows, 2).tolist() == [0, 0]
    assert predict(model, rows, 2, among=torch.tensor([1, 2])).tolist() == [2, 2]
