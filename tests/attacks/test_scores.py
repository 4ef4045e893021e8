"""What attacks climb: the margin of the logits, whatever the temperature of the model."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tune_tickets.attacks.run import AttackRow, attack_rows
from tune_tickets.attacks.threat import KNOWN_THREATS, get_threat, named
from tune_tickets.attacks.victim import Victim, margins
from tune_tickets.errors import ResourceError

WEIGHTS = {"good": 2.0, "fine": 1.5, "great": 1.0, "story": 0.5, "bad": -2.0, "dull": -1.5, "film": 0.3, "plot": -0.4}
ROWS = [
    AttackRow(0, ("a good film with a great story",), 1),
    AttackRow(1, ("a dull plot and bad acting",), 0),
    AttackRow(2, ("fine actors tell a good story in a great film",), 1),
    AttackRow(3, ("a bad film",), 1),
    AttackRow(4, ("a good film",), 1),
]


class Scaled(torch.nn.Module):
    """A model whose logits are multiplied."""

    def __init__(self, model, scale):
        super().__init__()
        self.model, self.scale, self.config = model, scale, model.config

    @property
    def device(self):
        return self.model.device

    def forward(self, **batch):
        return SimpleNamespace(logits=self.model(**batch).logits * self.scale)


def scaled(victim, scale):
    return Victim(Scaled(victim.model, scale).eval(), victim.tokenizer, victim.max_length, victim.batch_size)


def outcomes(victim, threat):
    found = attack_rows(victim, ROWS, threat, ("text",), "text", ("neg", "pos"), 0)
    return [(record.status, record.perturbed_texts, record.queries) for record in found.records]


def test_the_margin_is_the_true_logit_minus_the_best_other():
    logits = torch.tensor([[1.0, 5.0, 3.0], [-1.0, -2.0, -4.0]])
    assert margins(logits, 1).tolist() == [2.0, -1.0]
    assert margins(logits, 2).tolist() == [-2.0, -3.0]
    assert logits.tolist() == [[1.0, 5.0, 3.0], [-1.0, -2.0, -4.0]]


@pytest.mark.usefixtures("toolkit")
@pytest.mark.parametrize(
    "name",
    ["textfooler/minilm", "textbugger/minilm", "words/near50-forms", "deepwordbug/local", "pwws/local", "charmer/k2"],
)
def test_logits_times_any_factor_give_the_same_attacks(name, counting_victim):
    victim = counting_victim(WEIGHTS, bias=-0.2)
    try:
        threat = get_threat(name)
    except ResourceError as error:
        pytest.skip(str(error).splitlines()[0])
    plain = outcomes(victim, threat)
    assert plain == outcomes(scaled(victim, 1000.0), threat) == outcomes(scaled(victim, 0.001), threat)
    assert {status for status, _, _ in plain} >= {"successful", "skipped"}


@pytest.mark.usefixtures("toolkit")
def test_the_stock_score_is_blind_where_probabilities_are_all_one(counting_victim):
    victim = counting_victim(WEIGHTS, bias=-0.2)
    stock = replace(get_threat("textfooler/minilm"), score="probability")
    assert outcomes(victim, stock) == outcomes(victim, get_threat("textfooler/minilm"))
    assert outcomes(scaled(victim, 1000.0), stock) != outcomes(victim, stock)


@pytest.mark.usefixtures("toolkit")
def test_the_score_is_0_at_the_start_1_at_the_boundary_and_orders_texts_by_their_margin():
    from textattack.shared import AttackedText

    from tune_tickets.attacks.recipes import MarginGoal

    answers = {"first": [0.0, 4.0, 1.0], "nearer": [3.0, 4.0, 0.0], "tied": [2.0, 2.0, 0.0], "over": [9.0, 3.0, 0.0]}

    class Model:
        model = torch.nn.Linear(1, 1)

        def __call__(self, texts):
            return torch.tensor([answers[text] for text in texts], dtype=torch.float64)

    goal = MarginGoal(Model())
    result, _ = goal.init_attack_example(AttackedText("first"), 1)
    assert result.score == 0
    scores = [goal.get_result(AttackedText(text))[0].score for text in answers]
    assert scores == pytest.approx([0.0, 1 - 1 / 3, 1.0, 1 + 6 / 3])


def test_papers_names_keep_the_stock_score_and_all_others_take_the_margin():
    stock = {"textfooler", "textbugger", "bert-attack", "bae-counterfitted", "pwws", "deepwordbug"}
    assert {name for name in KNOWN_THREATS if named(name).score == "probability"} == stock
