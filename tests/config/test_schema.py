"""The JSON schema for editors."""

from tune_tickets.config.evaluation import Controls, Evaluation, Fitting, MaskedLM, Probe
from tune_tickets.config.experiment import Settings
from tune_tickets.config.objective import Objective
from tune_tickets.config.schema import json_schema
from tune_tickets.config.search import Asha, Resources, Search, Tracking
from tune_tickets.config.task import Model, Rows, Task, Transfer
from tune_tickets.config.training import (
    Ablation,
    Adversary,
    BiasModel,
    Debiasing,
    Drawing,
    Regulariser,
    Retraining,
    Start,
    Teacher,
)
from tune_tickets.methods.earlyrobust import EarlyRobust
from tune_tickets.methods.finetune import FineTune
from tune_tickets.methods.imp import Imp
from tune_tickets.methods.orticket import ORTicket
from tune_tickets.methods.random import RandomTicket
from tune_tickets.methods.robustt import RobustT
from tune_tickets.methods.srnets import SRNets

SECTIONS = (Adversary, Controls, Evaluation, Probe, Drawing, EarlyRobust, FineTune, RandomTicket, Model, Objective)
SECTIONS += (Ablation, Imp, RobustT, Regulariser, Resources, Retraining, Asha, Search, Rows, Task, Tracking, Settings)
SECTIONS += (BiasModel, Debiasing, Teacher, SRNets, Start, Fitting, MaskedLM, ORTicket, Transfer)


def test_numbers_and_choices_of_searchable_sections_allow_domains():
    definitions = json_schema()["$defs"]
    for section, field in (
        ("EarlyRobust", "gamma"),
        ("ORTicket", "search_on"),
        ("Adversary", "norm"),
        ("Drawing", "heads"),
        ("Retraining", "epochs"),
        ("Imp", "rewinding"),
        ("Ablation", "weights"),
        ("Regulariser", "kind"),
        ("Debiasing", "loss"),
        ("SRNets", "paradigm"),
        ("Start", "at"),
        ("BiasModel", "folds"),
    ):
        assert {"$ref": "#/$defs/Domain"} in definitions[section]["properties"][field]["anyOf"]


def test_sections_that_are_not_searched_allow_none():
    assert "Domain" not in str(json_schema()["$defs"]["Search"])


def test_every_field_has_a_default_and_every_value_a_description():
    for section in SECTIONS:
        for name, field in section.model_fields.items():
            assert not field.is_required(), f"{section.__name__}.{name} has no default"
            nested = field.default_factory is not None
            assert field.description or nested or name in ("kind", "scheduler"), f"{section.__name__}.{name}"
