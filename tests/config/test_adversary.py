"""The `adversary` section: each kind has its own settings, and only these enter digests."""

from typing import get_args

import pytest
from pydantic import ValidationError

from tune_tickets.attacks.threat import THREATS
from tune_tickets.config.experiment import Settings
from tune_tickets.config.training import ADVERSARIES, NO_WORDS, Adversary
from tune_tickets.methods.robustt import RobustT

MOVING = {
    "steps": 5,
    "step_size": 0.02,
    "initial_magnitude": 0.05,
    "norm": "l2",
    "max_norm": 0.0,
    "fixed_dropout": False,
}
REWRITING = {"tries": 4, "source": "near50-forms", "word_share": 0.3, "slip_share": 0.2, "clean_share": 0.2}


@pytest.mark.parametrize("kind", ["freelb", "pgd", "none"])
def test_kinds_from_before_are_written_as_before(kind):
    assert Adversary(kind=kind).model_dump(mode="json") == {"kind": kind, **MOVING}


def test_substitution_is_written_with_its_own_settings():
    assert Adversary(kind="substitution").model_dump(mode="json") == {"kind": "substitution", **REWRITING}


def test_settings_of_other_kinds_have_no_effect():
    assert Adversary(kind="substitution", steps=9) == Adversary(kind="substitution")
    assert Adversary(kind="freelb", tries=9, source="none") == Adversary(kind="freelb")
    assert Adversary(kind="none", tries=9) == Adversary(kind="none")
    assert RobustT(adversary={"kind": "substitution"}).adversary == Adversary(kind="substitution")


def test_freelb_plus_plus_takes_more_steps_and_has_no_ball():
    found = Adversary(kind="freelb++", max_norm=0.3, step_size=0.1)
    assert found.model_dump(mode="json") == {"kind": "freelb++", **MOVING, "steps": 30, "step_size": 0.1}
    assert found.passes == 30
    assert Adversary(kind="freelb++", steps=10).passes == 10
    assert RobustT(adversary={"kind": "freelb++"}).adversary == Adversary(kind="freelb++")
    assert RobustT(adversary={"kind": "freelb"}).adversary.steps == 3


def test_what_is_written_is_read_again():
    for one in (
        Adversary(kind="substitution", tries=2),
        Adversary(kind="substitution", source="none"),
        Adversary(),
        Adversary(kind="freelb++"),
    ):
        assert Adversary.model_validate(one.model_dump(mode="json")) == one


def test_without_a_source_no_word_is_replaced():
    assert Adversary(kind="substitution", source="none", word_share=0.7).word_share == 0.0
    assert not Adversary(kind="substitution", source="none").reads_substitutes
    assert Adversary(kind="substitution").reads_substitutes
    assert not Adversary(kind="freelb").reads_substitutes


@pytest.mark.parametrize("shares", [{"word_share": 0.6, "slip_share": 0.5}, {"word_share": 0.0, "slip_share": 0.0}])
def test_shares_must_fit(shares):
    with pytest.raises(ValidationError, match="their sum must be above 0 and at most 1"):
        Adversary(kind="substitution", **shares)


def test_a_pass_without_gradients_counts_as_a_third():
    assert Adversary(kind="substitution", tries=6, clean_share=0.0).passes == 3
    assert Adversary(kind="substitution", tries=6, clean_share=0.5).passes == 2
    assert [Adversary(kind=kind, steps=3).passes for kind in ("none", "freelb", "pgd")] == [1, 3, 4]


def test_every_source_is_that_of_an_attack_and_every_kind_has_a_name():
    sources = get_args(Adversary.model_fields["source"].annotation)
    assert {f"words/{source}" for source in sources if source != NO_WORDS} <= set(THREATS)
    assert {*get_args(Adversary.model_fields["kind"].annotation)} == {*ADVERSARIES, "none"}


def test_a_search_on_masked_text_refuses_to_rewrite_rows():
    method = {"kind": "orticket", "adversary": {"kind": "substitution"}}
    with pytest.raises(ValidationError, match="rewrites labelled rows, but the search is on masked text"):
        Settings.model_validate({"method": method})
    assert Settings.model_validate({"method": method | {"search_on": "task"}}).method.adversary.kind == "substitution"
