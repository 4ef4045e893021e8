"""Stage `retrain`: the ticket from the pre-trained weights, trained on its own and looked at after every epoch."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.config.evaluation import Probe
from tune_tickets.config.training import Ablation, Adversary, Regulariser, Retraining, Start
from tune_tickets.data.task import attack_sample
from tune_tickets.engine.execution import StageContext, StageOutput, training_cost
from tune_tickets.methods.bodies.draw import load_mask
from tune_tickets.methods.bodies.start import (
    debiased,
    device_of,
    encode_rows,
    keep_training,
    load_start,
    restore_training,
)
from tune_tickets.methods.given import TaskRows, load_rows
from tune_tickets.methods.stages import TICKET_FILE, epoch_file
from tune_tickets.models.families import family_of
from tune_tickets.models.loading import config_document
from tune_tickets.models.seeding import derived_seed
from tune_tickets.models.surgery import (
    ParameterCount,
    count_parameters,
    prune,
    reinitialise,
    reinitialise_outside,
)
from tune_tickets.models.tokenizer import framing_tokens, tokenizer_files
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import Ticket, TicketMetadata
from tune_tickets.tickets.unstructured import Mask
from tune_tickets.training.batches import Batches, in_order
from tune_tickets.training.debiasing import TaskLoss
from tune_tickets.training.evaluation import agreement, clean_figures, predict
from tune_tickets.training.infobert import Critic, InfoBert
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.losses import Loss
from tune_tickets.training.patience import out_of_patience
from tune_tickets.training.probe import accuracy_under_pgd
from tune_tickets.training.schedule import build_optimizer, mini_epoch_steps
from tune_tickets.training.state import TrainState

_NOTHING_TRAINED = training_cost(0, 0.0, rows=1)


def run(context: StageContext) -> StageOutput:
    """Rewind to the pre-trained weights, cut what the ticket does not keep, fine-tune.

    With weights from upstream and without `retraining`, what is left of these is the ticket as it is.
    """
    return trained(context, every_epoch=False)


def trained(context: StageContext, every_epoch: bool) -> StageOutput:
    """Train the ticket and keep it at the end, or as it is after each epoch."""
    inputs = context.inputs
    rows = load_rows(context)
    model, tokenizer = load_start(context, rows.labels)
    dense = count_parameters(model)
    anatomy = family_of(model).anatomy(model)
    structure = StructuredMask.full(anatomy.layers, anatomy.heads, anatomy.neurons)
    mask: Mask = load_mask(context, "draw") if "draw" in context.stage.upstream else structure
    if "ablation" in inputs:
        mask = _ablate(Ablation.model_validate(inputs["ablation"]), model, mask, structure, inputs["seed"])
    if isinstance(mask, StructuredMask):
        structure = mask
        prune(model, structure)
    model.to(device_of(context.resources))  # type: ignore[arg-type]

    def keep(file: str) -> None:
        context.attempt.put(file, _ticket(inputs, model, tokenizer, structure, rows).to_bytes())

    with _held(model, mask):
        training = _NOTHING_TRAINED
        if "retraining" in inputs:
            training = _fine_tune(context, model, tokenizer, rows, keep if every_epoch else None)
    if not every_epoch:
        keep(TICKET_FILE)
    return StageOutput({"sparsity": _sparsity(model, mask, structure, dense), "training": training})


def _ablate(ablation: Ablation, model: PreTrainedModel, mask: Mask, full: StructuredMask, seed: int) -> Mask:
    """Take the initialisation or the structure from the ticket; gives the mask that is left of it."""
    seed = derived_seed(seed, "ablation", ablation.seed)
    if ablation.weights == "reinitialised":
        reinitialise(model, seed)
    if ablation.structure == "kept":
        return mask
    reinitialise_outside(model, mask, seed)
    return full


def _held(model: PreTrainedModel, mask: Mask) -> AbstractContextManager[object]:
    """Single weights that are cut stay exactly zero in training; in the trained ticket the zeros are the mask."""
    if isinstance(mask, StructuredMask):
        return nullcontext()
    return mask.hold(dict(model.named_parameters()))


def _sparsity(model: PreTrainedModel, mask: Mask, structure: StructuredMask, dense: ParameterCount) -> dict[str, float]:
    left = count_parameters(model)
    cut = 0 if isinstance(mask, StructuredMask) else mask.weights_cut()
    return {
        "heads": 100.0 * structure.heads_sparsity,
        "neurons": 100.0 * structure.neurons_sparsity,
        "weights": 0.0 if isinstance(mask, StructuredMask) else 100.0 * mask.sparsity,
        "parameters": left.without_embeddings - cut,
        "parameters_total": left.total - cut,
        "parameters_dense": dense.without_embeddings,
    }


def _fine_tune(
    context: StageContext,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: TaskRows,
    keep: Callable[[str], None] | None,
) -> dict[str, float]:
    inputs = context.inputs
    settings = Retraining.model_validate(inputs["retraining"])
    encoded = encode_rows(tokenizer, rows.train, inputs["max_length"])
    encoded, task_loss = debiased(context, settings.debiasing, encoded)
    batches = Batches(encoded, settings.batch_size, inputs["seed"], model.device)
    look = _Look(inputs, tokenizer, rows)
    loss_fn, critic = _loss(settings.regulariser, task_loss, model, tokenizer, inputs["seed"])
    trained = nn.ModuleList(part for part in (model, critic) if part is not None)
    optimizer = build_optimizer(trained, settings.learning_rate, settings.weight_decay)
    state = TrainState(model, optimizer, critic=critic)
    recipe = Recipe(
        batches=batches,
        loss=loss_fn,
        adversary=settings.adversary,
        total_steps=settings.epochs * batches.steps_per_epoch,
        warmup=settings.warmup,
        clip=settings.clip,
        seed=inputs["seed"],
    )
    start = Start.model_validate(inputs.get("start", {}))
    start.check(recipe.total_steps)
    restore_training(context, state)
    leave = _Leave(start, look)
    mini_epoch = mini_epoch_steps(batches.steps_per_epoch)
    for step, loss in train(state, recipe):
        state.losses = state.losses + loss
        context.progress(step, recipe.total_steps)
        leaving = leave.after(step, context, model)
        looked = step % batches.steps_per_epoch == 0
        if looked:
            mean_loss = float(state.losses) / batches.steps_per_epoch
            context.report(look.at(model, step // batches.steps_per_epoch, mean_loss))
            state.losses = torch.zeros_like(state.losses)
            if keep is not None:
                keep(epoch_file(step // batches.steps_per_epoch))
        if leaving:
            break
        if step < recipe.total_steps:
            keep_training(context, state, mini_epoch, looked)
    return training_cost(state.row_passes, state.seconds, len(rows.train))


def _loss(
    settings: Regulariser, task: TaskLoss, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, seed: int
) -> tuple[Loss, Critic | None]:
    """The loss, and what of it has to be trained beside the model."""
    if settings.kind == "none":
        return task, None
    critic = Critic(model.config.hidden_size, settings.critic_width, seed).to(model.device)
    return InfoBert(settings, critic, framing_tokens(tokenizer), task), critic


class _Look:
    """Clean accuracy and the cheap probe on select rows: what trials are compared by while they train."""

    def __init__(self, inputs: dict[str, Any], tokenizer: PreTrainedTokenizerBase, rows: TaskRows) -> None:
        probe = Probe.model_validate(inputs["probe"])
        probed = attack_sample(rows.select, min(probe.rows, len(rows.select)), inputs["seed"])
        self._select = encode_rows(tokenizer, rows.select, inputs["max_length"])
        self._probed = encode_rows(tokenizer, [row for _, row in probed], inputs["max_length"])
        self._adversary = Adversary(kind="pgd", steps=probe.steps, step_size=probe.step_size, initial_magnitude=0.0)
        self._batch_size = inputs["eval_batch_size"]

    def at(self, model: PreTrainedModel, epoch: int, loss: float) -> dict[str, float]:
        """The record of an epoch."""
        predicted = self._predicted(model)
        clean = clean_figures(predicted, self._select.labels).accuracy
        batches = in_order(self._probed, self._batch_size, model.device)
        probed = accuracy_under_pgd(model, batches, self._adversary, torch.Generator())
        # Kappa, not accuracy: a constant predictor survives every probe, and must not look good for it.
        score = 100.0 * math.sqrt(max(0.0, agreement(predicted, self._select.labels)) * probed / 100.0)
        return {"epoch": epoch, "step": epoch, "loss": loss, "clean": clean, "probe": probed, "probe_score": score}

    def clean(self, model: PreTrainedModel) -> float:
        """Accuracy on the select rows alone."""
        return clean_figures(self._predicted(model), self._select.labels).accuracy

    def _predicted(self, model: PreTrainedModel) -> Tensor:
        return predict(model, self._select, self._batch_size)


class _Leave:
    """The point at which a fine-tuning is left because the pruning starts there."""

    def __init__(self, start: Start, look: _Look) -> None:
        self._start, self._look = start, look

    def after(self, step: int, context: StageContext, model: PreTrainedModel) -> bool:
        """Whether it is reached after this step; by the patience rule, looks are records of the stage."""
        start = self._start
        if start.at != "patience" or step % start.interval:
            return start.at == "steps" and step >= start.steps
        context.report({"step": step, "look": self._look.clean(model)})
        looks = [record["look"] for record in context.attempt.records if "look" in record]
        return out_of_patience(looks, start.patience, start.improvement)


def _ticket(
    inputs: dict[str, Any],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    mask: StructuredMask,
    rows: TaskRows,
) -> Ticket:
    story = TicketMetadata(
        backbone=inputs["model"]["source"],
        backbone_fingerprint=inputs["model_fingerprint"],
        config=config_document(model),
        labels=rows.labels,
        text_columns=rows.columns,
        max_length=inputs["max_length"],
        method="",
        params={},
        metrics={},
    )
    weights = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    return Ticket(weights, mask, tokenizer_files(tokenizer), story)
