"""The settings of SRNets: which combinations are allowed, and which settings a stage ignores."""

import pytest
from pydantic import ValidationError

from tune_tickets.config.experiment import Settings, uses_ood_information
from tune_tickets.config.title import title
from tune_tickets.config.training import Retraining, Start
from tune_tickets.errors import ConfigError
from tune_tickets.methods.srnets import SRNets


@pytest.mark.parametrize(
    ("pruning", "paradigm"),
    [("imp", "isolated"), ("imp", "pretrained"), ("imp_rewind", "finetuned"), ("imp_rewind", "pretrained")],
)
def test_magnitude_pruning_serves_one_paradigm_each(pruning, paradigm):
    with pytest.raises(ValidationError, match=f"pruning: {pruning} gives subnetworks for paradigm"):
        SRNets(pruning=pruning, paradigm=paradigm)


def test_sparsity_only_grows():
    SRNets(start_sparsity=0.7, sparsity=0.9)
    with pytest.raises(ValidationError, match=r"start_sparsity 0.9 is above sparsity 0.7"):
        SRNets(start_sparsity=0.9, sparsity=0.7)


def test_cuts_have_to_fit_into_the_training():
    assert SRNets(pruning="imp", sparsity=0.9).cuts() == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    assert SRNets(pruning="imp", sparsity=0.25).cuts() == (0.1, 0.2, 0.25)
    assert SRNets(pruning="imp", sparsity=0.3).interval(3) == (0.2, 0.3)
    with pytest.raises(ValidationError, match=r"9 cuts every 0.2 of the training do not fit"):
        SRNets(pruning="imp", sparsity=0.9, prune_interval=0.2)


def test_of_many_looks_the_masks_of_twenty_are_kept_spread_evenly_to_the_last():
    assert SRNets(eval_interval=4).kept_looks(10) == (1, 2, 3), "after 4, 8 and 10 steps"
    assert SRNets(eval_interval=1000).kept_looks(10) == (1,)
    assert SRNets(eval_interval=1).kept_looks(20) == tuple(range(1, 21))
    assert SRNets(eval_interval=1).kept_looks(40) == tuple(range(2, 41, 2))
    # MNLI: 5 epochs of 12,272 steps, 62 looks: the n-th kept one is 3.1 n, rounded up.
    many = SRNets().kept_looks(61360)
    assert (many[:4], many[-2:], len(many)) == ((4, 7, 10, 13), (59, 62), 20)


def test_a_mask_is_chosen_late_on_a_fine_tuned_model_and_at_any_time_on_the_pre_trained_one():
    assert SRNets().chosen_after == SRNets(paradigm="isolated").chosen_after == 0.7
    assert SRNets(paradigm="pretrained").chosen_after == 0.0
    assert SRNets(select_after=0.5).chosen_after == 0.5


def test_a_mask_training_is_shared_by_what_does_not_change_it():
    plain = SRNets().mask_inputs()
    assert SRNets(paradigm="isolated", prune_step=0.2, start=Start(at="steps")).mask_inputs() == plain
    assert SRNets(init="soft", phi=0.5).mask_inputs() == SRNets(init="soft", alpha=3.0).mask_inputs()
    changed = [{"phi": 0.5}, {"sparsity": 0.6}, {"pooler": True}, {"init": "soft"}, {"paradigm": "pretrained"}]
    changed += [{"start_sparsity": 0.2}, {"eval_interval": 5}, {"alpha": 3.0}, {"debiasing": {"loss": "poe"}}]
    for change in changed:
        assert SRNets.model_validate(change).mask_inputs() != plain, change
    assert SRNets(sparsity=0.2).interval_inputs() == SRNets(sparsity=0.7, eval_interval=5).interval_inputs()


def test_settings_of_another_kind_of_start_are_dropped():
    assert Start.model_validate({"at": "steps", "steps": 5, "patience": 9}).leave_inputs() == {
        "start": {"at": "steps", "steps": 5}
    }
    assert Start.model_validate({"at": "patience", "steps": 5, "interval": 7}).leave_inputs() == {
        "start": {"at": "patience", "interval": 7, "patience": 3, "improvement": 0.5}
    }
    assert Start.model_validate({"at": "end", "steps": 5}) == Start()
    assert Start().leave_inputs() == {}


def test_ood_rows_need_a_mask_training_under_cross_entropy_and_a_twin_to_take_them_from():
    with pytest.raises(ValidationError, match="ood_rows need a mask training"):
        SRNets.model_validate({"ood_rows": True, "debiasing": {"loss": "poe"}})
    with pytest.raises(ValidationError, match="ood_rows need a mask training"):
        SRNets(ood_rows=True, pruning="imp")
    method = {"kind": "srnets", "ood_rows": True}
    with pytest.raises(ValidationError, match="no twin has any"):
        Settings.model_validate({"method": method})
    with pytest.raises(ValidationError, match="no twin has any"):
        Settings.model_validate({"method": method, "task": {"planted": {}}})
    marked = Settings.model_validate({"method": method, "task": {"planted": {"train_rows": 10}}})
    assert uses_ood_information(marked)
    assert not uses_ood_information(marked.model_copy(update={"method": SRNets()}))


def test_what_is_taken_as_it_is_cannot_lose_its_weights_or_structure():
    for ablation in ({"weights": "reinitialised"}, {"structure": "discarded"}):
        with pytest.raises(ValidationError, match="a subnetwork is not retrained"):
            Settings.model_validate({"method": {"kind": "srnets"}, "ablation": ablation})
        Settings.model_validate({"method": {"kind": "srnets", "paradigm": "isolated"}, "ablation": ablation})
    Settings.model_validate({"method": {"kind": "srnets"}, "ablation": {"mask": "shuffled"}})


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ({}, "srnets"),
        ({"debiasing": {"loss": "poe", "bias": {"features": "claim"}}}, "srnets, PoE pruned"),
        ({"paradigm": "pretrained"}, "srnets, pretrained"),
        ({"pruning": "imp"}, "srnets, IMP"),
        ({"pruning": "imp_rewind", "paradigm": "isolated"}, "srnets, IMP rewound + FreeLB"),
        (
            {"finetuning": {"debiasing": {"loss": "reweight", "bias": {"features": "claim"}}}},
            "srnets, reweighting fine-tuned",
        ),
    ],
)
def test_tables_say_how_it_was_pruned_and_name_no_retraining_that_was_not_done(method, expected):
    settings = {"method": {"kind": "srnets", **method}, "retraining": {"adversary": {"kind": "freelb"}}}
    assert title(Settings.model_validate(settings)) == expected


def test_a_fine_tuning_written_in_part_keeps_the_papers_settings_for_the_rest():
    # Appendix Table 3, MNLI: 3 epochs at 5e-5. Those of `retraining` (10 epochs at 2e-5) are EarlyRobust's.
    written = SRNets.model_validate({"finetuning": {"batch_size": 8, "debiasing": {"loss": "poe"}}}).finetuning
    assert (written.epochs, written.learning_rate, written.weight_decay) == (3, 5e-5, 0.0)
    assert (written.batch_size, written.debiasing.loss) == (8, "poe")
    assert SRNets.model_validate({"finetuning": {"epochs": 5}}).finetuning.epochs == 5


def test_a_teacher_is_the_plain_fine_tuning_that_is_pruned_and_shares_its_stage():
    teacher = SRNets.model_validate({"debiasing": {"loss": "confidence"}}).debiasing.teacher
    assert Retraining.model_validate(teacher.model_dump()) == SRNets().finetuning


def test_a_start_that_the_fine_tuning_never_reaches_is_refused():
    Start(at="steps", steps=75).check(75)
    Start(at="patience", interval=75).check(75)
    Start().check(1)
    with pytest.raises(ConfigError, match=r"method.start.steps is 20000, but the fine-tuning has only 75 steps"):
        Start(at="steps").check(75)
    with pytest.raises(ConfigError, match=r"method.start.interval is 1000, but the fine-tuning has only 75 steps"):
        Start(at="patience").check(75)


def test_with_rewinding_the_last_cut_may_stand_at_the_end_of_the_training():
    # Cuts at 0, 0.5 and 1 of t_max: only IMP itself trains for another half of it.
    assert SRNets(pruning="imp_rewind", paradigm="isolated", sparsity=0.3, prune_interval=0.5).cuts() == (0.1, 0.2, 0.3)
    with pytest.raises(ValidationError, match=r"3 cuts every 0.5 of the training do not fit"):
        SRNets(pruning="imp", sparsity=0.3, prune_interval=0.5)
