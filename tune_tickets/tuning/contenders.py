"""Who takes part in a confirmation: tickets chosen by the summary alone, random ones like them, the whole model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.method import FineTune, RandomTicket
from tune_tickets.config.srnets import SRNets
from tune_tickets.config.title import title
from tune_tickets.confirmation import ModelKind
from tune_tickets.errors import TicketsError
from tune_tickets.objective import ranked
from tune_tickets.records import Outcome, Summary, TrialRecord
from tune_tickets.space import reference
from tune_tickets.trial.pipeline import Pipeline, World
from tune_tickets.trial.runner import Runner
from tune_tickets.trial.stage import StageKey
from tune_tickets.trial.store import Store


@dataclass(frozen=True)
class Contender:
    """A model to be trained with every seed: a ticket by its mask, the whole model, or random tickets like one."""

    name: str
    kind: ModelKind
    settings: Settings
    ticket: StageKey | None
    trial: TrialRecord | None = None

    def measure(self, world: World, runner: Runner, seed: int) -> Outcome:
        """Train with the seed and measure on the rows of the world."""
        pipeline, method = Pipeline(self.settings, world, runner, training_seed=seed), self.settings.method
        if self.kind == "dense":
            return pipeline.train_and_measure(None, _unheard)
        if self.kind == "random":
            assert self.ticket is not None
            return pipeline.random_control(self.ticket, seed, _unheard)
        if isinstance(method, SRNets) and not method.retrained:
            # Taken as pruning leaves it: a mask has no meaning on other weights, so all is done anew.
            return pipeline.find_ticket(_unheard)
        return pipeline.train_and_measure(self.ticket, _unheard, self.settings.ablation)

    @property
    def title(self) -> str:
        """What tables call it."""
        method = {"dense": FineTune(), "random": RandomTicket()}.get(self.kind, self.settings.method)
        return title(self.settings.model_copy(update={"method": method}))


def choose(summary: Summary, top: int) -> list[TrialRecord]:
    """The tickets to confirm, best first by the objective on select rows: of a vector, those on the front."""
    best = ranked(list(summary.trials))
    if not best:
        raise TicketsError(f"there is nothing to confirm: {summary.selected.reason}")
    vector = any(len(trial.values or ()) > 1 for trial in best)
    return [trial for trial in best if not vector or trial.id in summary.front][:top]


def contenders(experiment: Experiment, chosen: Sequence[TrialRecord], rows: int) -> list[Contender]:
    """The tickets, each followed by random ones like it, and the dense control."""
    found = []
    for trial in chosen:
        assert trial.outcome is not None
        settings = _attacking(experiment.at(trial.params), rows)
        ticket = None
        if trial.outcome.draw_digest is not None and trial.outcome.mask is not None:
            ticket = StageKey("draw", trial.outcome.draw_digest, trial.outcome.mask)
        found.append(Contender(trial.id, "ticket", settings, ticket, trial))
        if ticket is not None:
            found.append(Contender(f"random like {trial.id}", "random", settings, ticket, trial))
    return [*found, Contender("dense", "dense", _attacking(reference(experiment), rows), None)]


def check_masks(models: Sequence[Contender], store: Store) -> None:
    """Whether the store holds every ticket."""
    for model in models:
        if model.ticket is not None and store.find(model.ticket.name, model.ticket.digest) is None:
            raise TicketsError(
                f"the store {store.url} does not hold the ticket of {model.name}: "
                "name the store of the search with --store"
            )


def _attacking(settings: Settings, rows: int) -> Settings:
    return settings.model_copy(update={"evaluation": settings.evaluation.model_copy(update={"rows": rows})})


def _unheard(record: dict[str, Any]) -> None:
    """Nobody is compared by single epochs here."""
