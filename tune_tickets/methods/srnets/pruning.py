"""SRNets: mask training on frozen weights, under any loss (appendix Algorithm 2).

The mask is chosen on in-distribution rows, and looked at as it would be used: at the target sparsity, wherever the
gradual schedule stands.
"""

import json
from collections.abc import Callable
from typing import Any

import torch
from safetensors.torch import save
from transformers import PreTrainedModel

from tune_tickets.config.training import Adversary
from tune_tickets.engine.execution import StageContext, StageOutput, training_cost
from tune_tickets.methods.bodies.draw import load_mask, masked_weights
from tune_tickets.methods.bodies.evaluate import TwinFigures
from tune_tickets.methods.bodies.start import debiased, device_of, encode_rows, load_start
from tune_tickets.methods.given import load_ood_train, load_rows
from tune_tickets.methods.imp import Imp
from tune_tickets.methods.imp.rounds import Round, train_round
from tune_tickets.methods.srnets import LOOKS_FILE, SRNets
from tune_tickets.methods.stages import MASK_FILE, WEIGHTS_FILE
from tune_tickets.models.families import family_of
from tune_tickets.tickets.drawing import draw_unstructured
from tune_tickets.tickets.straight_through import StraightThroughMasks
from tune_tickets.tickets.unstructured import MaskLooks, UnstructuredMask
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.evaluation import predict
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.losses import Loss
from tune_tickets.training.ood import ood_figures
from tune_tickets.training.schedule import build_optimizer, mini_epoch_steps, total_steps
from tune_tickets.training.state import TrainState, state_parts, unpacked

Look = Callable[[PreTrainedModel], float]
"""How good the model is on in-distribution rows that it does not train on."""


class MaskTraining:
    """A mask training that can be left after any step and taken up again; the weights of `model` are frozen."""

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
        batches = Batches(rows, method.batch_size, seed, device)
        self.state = TrainState(model, build_optimizer(self.masks, method.learning_rate, method.weight_decay))
        self.best: UnstructuredMask | None = None
        self.looks = MaskLooks()
        self.history: list[dict[str, float]] = []
        self.mini_epoch = mini_epoch_steps(batches.steps_per_epoch)
        self._best_look = float("-inf")
        self._losses = torch.zeros((), device=device)
        self.recipe = Recipe(
            batches=batches,
            loss=loss,
            adversary=Adversary(kind="none"),
            total_steps=total_steps(batches.steps_per_epoch, method.epochs),
            warmup=method.warmup,
            clip=method.clip,
            seed=seed,
        )
        self._kept_looks = frozenset(method.kept_looks(self.recipe.total_steps))

    def run(self, on_interval: Callable[[], None], on_step: Callable[[int], None]) -> None:
        """Train the masks to the end; `history` holds a record per interval, `best` the chosen mask, `looks` others."""
        with self.masks.attached(self._linears):
            for step, loss in train(self.state, self.recipe):
                self._losses = self._losses + loss
                if self.looked_at(step):
                    self._end_interval(step)
                    on_interval()
                on_step(step)

    def looked_at(self, step: int) -> bool:
        """Whether an interval ends with this step."""
        return step % self._method.eval_interval == 0 or step == self.recipe.total_steps

    def parts(self) -> dict[str, Any]:
        """What is needed to go on; the frozen model is not part of it."""
        return state_parts(
            self.state,
            masks=self.masks.state_dict(),
            losses=self._losses,
            history=self.history,
            best=None if self.best is None else dict(self.best.kept),
            best_look=self._best_look,
            looks=self.looks.bits,
        )

    def restore(self, checkpoint: bytes) -> None:
        """Go back to a checkpoint of the same mask training; after an error, build it anew."""
        with unpacked(checkpoint, self.state, "a mask training") as parts:
            self.masks.load_state_dict(parts["masks"])
            self._losses, self.history, best = parts["losses"], parts["history"], parts["best"]
            self.best = None if best is None else UnstructuredMask({name: kept.cpu() for name, kept in best.items()})
            self._best_look, self.looks = float(parts["best_look"]), MaskLooks(parts["looks"])

    def _sparsity(self, done: float) -> float:
        target = self._method.sparsity
        start = self._method.start_sparsity
        return target if start is None else cubic_sparsity(done, start, target)

    def _end_interval(self, step: int) -> None:
        """Set the thresholds anew, look at the mask of the target sparsity, and keep it if it is the best so far."""
        method, done = self._method, step / self.recipe.total_steps
        self.masks.set_sparsity(self._sparsity(done))
        mask = draw_unstructured(self.masks.scores(), method.sparsity, "matrix")
        with self.masks.fixed(mask):
            seen = self._look(self.state.model)
        # Of equals the later one: in-distribution rows favour early masks, which are not those that generalise.
        if done >= method.chosen_after and seen >= self._best_look:
            self.best, self._best_look = mask, seen
        number, steps = len(self.history) + 1, step - len(self.history) * method.eval_interval
        if number in self._kept_looks:
            self.looks.keep(number, mask)
        self.history.append(
            {
                "step": number,
                "loss": float(self._losses) / steps,
                "clean": seen,
                "weights_cut": 100.0 * self._sparsity(done),
            }
        )
        self._losses = torch.zeros_like(self._losses)


def cubic_sparsity(done: float, start: float, target: float) -> float:
    """The sparsity after a share of the training: s_T + (s_0 - s_T)(1 - done)³ (Zhu and Gupta, 2018; section 5.2)."""
    return target + (start - target) * (1.0 - done) ** 3


def round_settings(method: SRNets) -> Imp:
    """How the weights train between two cuts, in the words of IMP."""
    return Imp(
        learning_rate=method.learning_rate,
        epochs=method.epochs,
        batch_size=method.batch_size,
        weight_decay=method.weight_decay,
        warmup=method.warmup,
        clip=method.clip,
    )


_STATE_FILE = "state.pt"


def train_masks(context: StageContext) -> StageOutput:
    """Train masks under the loss of the pruning; keep the best on the select rows, and those of the looks beside it."""
    training, rows = _prepare(context)
    stored = context.store.load_checkpoint(context.stage)
    if stored is not None:
        training.restore(stored[_STATE_FILE])
        for record in training.history:
            context.report(record)

    def step_done(step: int) -> None:
        context.progress(step, training.recipe.total_steps)
        keep = context.keep_now if training.looked_at(step) else context.keep
        keep(step, training.mini_epoch, lambda: {_STATE_FILE: training.parts()})

    training.run(lambda: context.report(training.history[-1]), step_done)
    assert training.best is not None, "the last step is always looked at"
    context.attempt.put(MASK_FILE, training.best.to_bytes())
    context.attempt.put(LOOKS_FILE, training.looks.to_bytes())
    cost = training_cost(training.state.row_passes, training.state.seconds, rows)
    return StageOutput({**training.history[-1], "training": cost})


def _prepare(context: StageContext) -> tuple[MaskTraining, int]:
    """The mask training, and over how many rows it goes."""
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

    return MaskTraining(method, model, encoded, inputs["seed"], device, loss, look), len(encoded)


def train_interval(context: StageContext) -> StageOutput:
    """Train what the cuts have left for a share of the schedule; keep the weights and their magnitudes."""
    inputs = context.inputs
    method = SRNets.model_validate(inputs["method"])
    rows, device = load_rows(context), device_of(context.resources)
    model, tokenizer = load_start(context, rows.labels)
    model.to(device)  # type: ignore[arg-type]
    encoded, loss = debiased(context, method.debiasing, encode_rows(tokenizer, rows.train, inputs["max_length"]))
    mask = load_mask(context, "within")
    assert isinstance(mask, UnstructuredMask)
    first, last = inputs["share"]
    weights = masked_weights(model, method.pooler)
    this = Round(round_settings(method), model, encoded, inputs["seed"], device, mask, loss, (first, last), weights)
    record = train_round(context, this, len(encoded))
    kept = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
    context.attempt.put(WEIGHTS_FILE, save(kept))
    return StageOutput(record)


_HISTORY_FILE = "history.json"


def measure_looks(context: StageContext) -> StageOutput:
    """Put one mask after the other on the frozen weights, and measure what is left of them."""
    looks = MaskLooks.from_bytes(context.store.read(context.upstream("masks"), LOOKS_FILE))
    model, tokenizer = load_start(context, load_rows(context).labels)
    model.to(device_of(context.resources))  # type: ignore[arg-type]
    twin = TwinFigures(context, tokenizer, context.inputs["max_length"])
    weights = dict(model.named_parameters())
    known = _restored(context)
    for done, (look, mask) in enumerate(looks.masks(), start=1):
        if done > known:
            with mask.laid_on(weights):
                context.report({"step": look, f"ood/{twin.twin.name}": twin.of(model).value})
            context.keep_now(done, 1, lambda: {_HISTORY_FILE: json.dumps(context.attempt.records).encode()})
        context.progress(done, len(looks.bits))
    return StageOutput({"looks": len(looks.bits), "rows": len(twin.twin.rows)})


def _restored(context: StageContext) -> int:
    """How many masks were measured before the stage was cut off; their records are told again."""
    stored = context.store.load_checkpoint(context.stage)
    records = [] if stored is None else json.loads(stored[_HISTORY_FILE])
    for record in records:
        context.report(record)
    return len(records)
