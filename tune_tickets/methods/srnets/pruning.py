"""SRNets: mask training on frozen weights, under any loss (appendix Algorithm 2).

The mask is chosen on in-distribution rows. It is measured at the target sparsity, as it would be used, even while the
gradual schedule is still below it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedModel

from tune_tickets.config.training import Optimisation
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.bodies.draw import load_unstructured, masked_weights
from tune_tickets.methods.bodies.evaluate import TwinFigures
from tune_tickets.methods.bodies.experts import debiased
from tune_tickets.methods.bodies.start import device_of, encode_rows, keep_weights, load_model, load_start
from tune_tickets.methods.given import load_ood_train, load_rows
from tune_tickets.methods.imp import Imp
from tune_tickets.methods.imp.rounds import Round, finished
from tune_tickets.methods.srnets import LOOKS_FILE, SRNets
from tune_tickets.methods.stages import MASK_FILE
from tune_tickets.models.families import family_of
from tune_tickets.tickets.drawing import draw_unstructured
from tune_tickets.tickets.straight_through import StraightThroughMasks
from tune_tickets.tickets.unstructured import MaskLooks, UnstructuredMask
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.evaluation import predict
from tune_tickets.training.losses import Loss
from tune_tickets.training.ood import ood_figures
from tune_tickets.training.schedule import build_optimizer
from tune_tickets.training.trainer import Checkpoint, Part, Recipe, Record, Trainer

Look = Callable[[PreTrainedModel], float]
"""Measures the model on in-distribution rows that it does not train on."""


class MaskTraining(Trainer):
    """The mask training of a frozen model. An interval ends with a look at the select rows."""

    waits_for_records = True

    def __init__(
        self,
        method: SRNets,
        model: PreTrainedModel,
        rows: EncodedRows,
        seed: int,
        device: torch.device | str,
        loss: Loss,
        look: Look,
    ) -> None:
        model.requires_grad_(False)
        self._method, self._look = method, look
        self._linears = family_of(model).matrices_with_classifier(model, method.pooler)
        weights = {name: linear.weight for name, linear in self._linears.items()}
        self.masks = StraightThroughMasks(weights, self._sparsity(0.0), method.init, method.phi, method.alpha)
        self.chosen = _Chosen()
        recipe = Recipe.of(method, Batches(rows, method.batch_size, seed, device), loss, seed)
        total = recipe.total_steps
        self._kept_looks = frozenset(method.kept_looks(total))
        optimizer = build_optimizer(self.masks, method.learning_rate, method.weight_decay)
        every = method.eval_interval
        super().__init__(model, optimizer, recipe, ends=(*range(every, total, every), total))

    def parts(self) -> dict[str, Part]:
        """The masks and what was chosen so far; the model is frozen."""
        return {"masks": self.masks, "chosen": self.chosen}

    def attached(self) -> AbstractContextManager[object]:
        """The masks act on the weights."""
        return self.masks.attached(self._linears)

    def record(self, number: int, loss: float) -> Record:
        """Set the thresholds, measure the mask of the target sparsity, and keep it if it is the best so far."""
        method, done = self._method, self.step / self.recipe.total_steps
        self.masks.set_sparsity(self._sparsity(done))
        mask = draw_unstructured(self.masks.scores(), method.sparsity, "matrix")
        with self.masks.fixed(mask):
            seen = self._look(self.model)
        # The later of equal masks: in-distribution rows favour early masks, which do not generalise best.
        if done >= method.chosen_after and seen >= self.chosen.value:
            self.chosen.best, self.chosen.value = mask, seen
        if number in self._kept_looks:
            self.chosen.looks.keep(number, mask)
        return {"step": number, "loss": loss, "clean": seen, "weights_cut": 100.0 * self._sparsity(done)}

    def _sparsity(self, done: float) -> float:
        target = self._method.sparsity
        start = self._method.start_sparsity
        return target if start is None else cubic_sparsity(done, start, target)


@dataclass
class _Chosen:
    """The best mask so far with its value on the select rows, and the masks of some looks."""

    best: UnstructuredMask | None = None
    value: float = float("-inf")
    looks: MaskLooks = field(default_factory=MaskLooks)

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        best = None if self.best is None else dict(self.best.kept)
        return {"best": best, "value": self.value, "looks": self.looks.bits}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """From a checkpoint."""
        best = state["best"]
        self.best = None if best is None else UnstructuredMask({name: kept.cpu() for name, kept in best.items()})
        self.value, self.looks = float(state["value"]), MaskLooks(state["looks"])


def cubic_sparsity(done: float, start: float, target: float) -> float:
    """The sparsity after a share of the training: s_T + (s_0 - s_T)(1 - done)³ (Zhu and Gupta, 2018; section 5.2)."""
    return target + (start - target) * (1.0 - done) ** 3


def round_settings(method: SRNets) -> Imp:
    """The training of the weights between two cuts, as settings of IMP."""
    return Imp.model_validate(method.model_dump(include={"epochs", *Optimisation.model_fields}))


def train_masks(context: StageContext) -> StageOutput:
    """Train masks under the loss of the pruning. Keep the best one on the select rows, and those of some looks."""
    inputs = context.inputs
    method = SRNets.model_validate(inputs["method"])
    rows, device = load_rows(context), device_of(context.resources)
    model, tokenizer = load_start(context, rows.labels)
    model.to(device)  # type: ignore[arg-type]
    train = rows.train + (load_ood_train(context) if method.ood_rows else ())
    encoded, loss = debiased(context, method.debiasing, encode_rows(tokenizer, train, inputs["max_length"]))
    select = encode_rows(tokenizer, rows.select, inputs["max_length"])

    def look(model: PreTrainedModel) -> float:
        predicted = predict(model, select, inputs["eval_batch_size"])
        return ood_figures("select", method.eval_metric, predicted, select.labels, [None] * len(select), "").value

    training = MaskTraining(method, model, encoded, inputs["seed"], device, loss, look)
    training.run(context)
    assert training.chosen.best is not None, "the last step is always looked at"
    context.attempt.put(MASK_FILE, training.chosen.best.to_bytes())
    context.attempt.put(LOOKS_FILE, training.chosen.looks.to_bytes())
    return StageOutput({**training.history[-1], "training": training.cost()})


def train_interval(context: StageContext) -> StageOutput:
    """Train what the cuts have left for a share of the schedule. Keep the weights and their magnitudes."""
    inputs = context.inputs
    method = SRNets.model_validate(inputs["method"])
    model, encoded = load_model(context, load_rows(context))
    encoded, loss = debiased(context, method.debiasing, encoded)
    mask, weights = load_unstructured(context, "within"), masked_weights(model, method.pooler)
    first, last = inputs["share"]
    settings = round_settings(method)
    this = Round(settings, model, encoded, inputs["seed"], model.device, mask, loss, (first, last), weights)
    this.run(context)
    keep_weights(context, model)
    return finished(context, this)


def measure_looks(context: StageContext) -> StageOutput:
    """Put one mask after the other on the frozen weights and measure the subnetworks on an OOD twin."""
    looks = MaskLooks.from_bytes(context.store.read(context.upstream("masks"), LOOKS_FILE))
    model, tokenizer = load_start(context, load_rows(context).labels)
    model.to(device_of(context.resources))  # type: ignore[arg-type]
    twin = TwinFigures(context, tokenizer, context.inputs["max_length"])
    weights = dict(model.named_parameters())
    stored = Checkpoint.load(context)
    history = [] if stored is None else list(stored.history)
    for record in history:
        context.report(record)
    known = len(history)
    for done, (look, mask) in enumerate(looks.masks(), start=1):
        if done > known:
            with mask.laid_on(weights):
                history.append({"step": look, f"ood/{twin.twin.name}": twin.of(model).value})
            context.report(history[-1])
            context.keep_now(done, 1, Checkpoint(history).to_files)
        context.progress(done, len(looks.bits))
    return StageOutput({"looks": len(looks.bits), "rows": len(twin.twin.rows)})
