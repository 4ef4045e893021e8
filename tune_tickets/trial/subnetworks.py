"""SRNets' steps on the way of a ticket: prune a model, take the subnetwork as it is. `Pipeline` has them too."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tune_tickets.config import Settings
from tune_tickets.config.srnets import SRNets, Start
from tune_tickets.config.training import Ablation, Debiasing, Retraining
from tune_tickets.engine.runner import OnRecord, later, unheard
from tune_tickets.engine.stage import Stage, StageKey, StageResult

if TYPE_CHECKING:
    from tune_tickets.trial.pipeline import World


class SubnetworkSteps(ABC):
    """What a pipeline does for SRNets alone; the abstract methods are the steps of every method."""

    settings: Settings
    world: "World"
    drawn_from: dict[str, StageKey | None]
    """The stage whose weights a subnetwork was cut from, by its mask; None for the pre-trained ones."""

    @abstractmethod
    def _run(self, stage: Stage, on_record: OnRecord) -> StageResult: ...

    @abstractmethod
    def _run_all(self, stages: Sequence[Stage]) -> list[StageResult]: ...

    @abstractmethod
    def _retrain(
        self,
        ticket: StageKey | None,
        retraining: Retraining | None = None,
        ablation: Ablation | None = None,
        start: Start | None = None,
    ) -> Stage: ...

    @abstractmethod
    def _experts(self, debiasing: Debiasing) -> dict[str, StageKey]: ...

    @abstractmethod
    def _model_inputs(self) -> dict[str, Any]: ...

    def _draw_subnetwork(self, method: SRNets, on_record: OnRecord) -> StageKey:
        """SRNets: prune the fine-tuned or the pre-trained model, by a mask training or by magnitude."""
        weights = self._pruned_weights(method)
        if method.pruning != "mask_training":
            return self._draw_by_cuts(method, weights, on_record)
        inputs = {**self._model_inputs(), "method": method.mask_inputs()}
        inputs["eval_batch_size"] = self.settings.evaluation.batch_size
        upstream = {"data": self.world.data, **_weights(weights), **self._experts(method.debiasing)}
        if method.ood_rows:
            assert self.world.ood_train is not None, "the settings were checked to have such rows"
            upstream["ood_train"] = self.world.ood_train
        masks = self._run(Stage("srnets_masks", inputs, upstream), on_record)
        drawn = self._run(Stage("draw", {"kind": "found"}, {"search": masks.key}), on_record).key
        self.drawn_from[drawn.content] = weights
        if self.world.measured is None:  # of report rows nothing is seen but the figures of a finished ticket
            self._follow_out_of_distribution(masks.key, weights, on_record)
        return drawn

    def _follow_out_of_distribution(self, masks: StageKey, weights: StageKey | None, on_record: OnRecord) -> None:
        """The masks of the looks on every OOD twin (its Fig. 7), once they can choose nothing any more."""
        inputs = {**self._model_inputs(), "eval_batch_size": self.settings.evaluation.batch_size}
        upstream = {"data": self.world.data, "masks": masks, **_weights(weights)}
        stages = [Stage("ood_curve", inputs, {**upstream, "twin": twin}) for twin in self.world.twins.values()]
        for result in self._run_all(stages):
            for record in result.history:
                on_record({"stage": result.key.name, **record})

    def _draw_by_cuts(self, method: SRNets, weights: StageKey | None, on_record: OnRecord) -> StageKey:
        """SRNets Algorithm 1: cut, train for Δt, cut again; all sparsities share their first cuts."""
        first, *others = method.cuts()
        inputs = {**self._model_inputs(), "kind": "magnitude", "sparsity": first, "pooler": method.pooler}
        drawn = self._run(Stage("draw", inputs, {"data": self.world.data, **_weights(weights)}), on_record).key
        epochs = 0
        for cut, sparsity in enumerate(others, start=1):
            trained = self._run(self._after_cut(method, cut, drawn, weights), later(on_record, epochs))
            drawing = {"kind": "ranking", "sparsity": sparsity, "ranking": "matrix"}
            drawn = self._run(Stage("draw", drawing, {"search": trained.key, "within": drawn}), on_record).key
            weights, epochs = trained.key, epochs + len(trained.history)
        self.drawn_from[drawn.content] = weights
        return drawn

    def _after_cut(self, method: SRNets, cut: int, mask: StageKey, weights: StageKey | None) -> Stage:
        inputs = {**self._model_inputs(), "method": method.interval_inputs(), "share": list(method.interval(cut))}
        experts = self._experts(method.debiasing)
        return Stage("srnets_imp", inputs, {"data": self.world.data, "within": mask, **_weights(weights), **experts})

    def _pruned_weights(self, method: SRNets) -> StageKey | None:
        """The fine-tuned model that is pruned; None for the pre-trained one."""
        if not method.from_finetuned:
            return None
        return self._run(self._retrain(None, method.finetuning, start=method.start), unheard).key

    def _as_it_is(self, method: SRNets, ticket: StageKey, on_record: OnRecord) -> StageResult:
        """The subnetwork as pruning leaves it. A random one is cut from the weights that pruning started from."""
        found = ticket.content in self.drawn_from
        weights = self.drawn_from[ticket.content] if found else self._pruned_weights(method)
        if method.pruning == "imp":
            weights = self._run(self._after_cut(method, len(method.cuts()), ticket, weights), on_record).key
        upstream = {"data": self.world.data, "draw": ticket, **_weights(weights)}
        return self._run(Stage("retrain", self._model_inputs(), upstream), on_record)


def _weights(key: StageKey | None) -> dict[str, StageKey]:
    """The upstream role of weights to start from; without it a stage takes the pre-trained ones."""
    return {} if key is None else {"weights": key}
