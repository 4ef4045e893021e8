"""Stage `retrain`: the ticket from the pre-trained weights, trained on its own and measured after every epoch."""

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.config.evaluation import Probe
from tune_tickets.config.training import Ablation, Adversary, Regulariser, Retraining, Start
from tune_tickets.data.task import attack_sample
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.bodies.draw import load_mask
from tune_tickets.methods.bodies.experts import debiased
from tune_tickets.methods.bodies.start import device_of, encode_rows, encode_training_rows, load_start
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
from tune_tickets.training.evaluation import accuracy_under_pgd, agreement, clean_figures, predict
from tune_tickets.training.infobert import Critic, InfoBert
from tune_tickets.training.losses import Loss, TaskLoss
from tune_tickets.training.schedule import build_optimizer
from tune_tickets.training.trainer import Part, Recipe, Record, Trainer, training_cost


def trained(context: StageContext, every_epoch: bool) -> StageOutput:
    """Rewind to the pre-trained weights, cut what the ticket does not keep, fine-tune.

    Without `retraining` the ticket is what the mask leaves of the weights from upstream.

    Args:
        context: the stage.
        every_epoch: store the ticket after each epoch instead of at the end.
    """
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
        training = training_cost(0, 0.0, rows=1)
        if "retraining" in inputs:
            fine_tuning = _FineTuning(context, model, tokenizer, rows, keep if every_epoch else None)
            fine_tuning.run(context)
            training = fine_tuning.cost()
    if not every_epoch:
        keep(TICKET_FILE)
    return StageOutput({"sparsity": _sparsity(model, mask, structure, dense), "training": training})


def _ablate(ablation: Ablation, model: PreTrainedModel, mask: Mask, full: StructuredMask, seed: int) -> Mask:
    """Take the initialisation or the structure away from the ticket. Returns the mask that remains."""
    seed = derived_seed(seed, "ablation", ablation.seed)
    if ablation.weights == "reinitialised":
        reinitialise(model, seed)
    if ablation.structure == "kept":
        return mask
    reinitialise_outside(model, mask, seed)
    return full


def _held(model: PreTrainedModel, mask: Mask) -> AbstractContextManager[object]:
    """Keep single weights that are cut at exactly zero. In the trained ticket the zeros are the mask."""
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


class _FineTuning(Trainer):
    """The training of a ticket, measured on the select rows after every epoch."""

    waits_for_records = True

    def __init__(
        self,
        context: StageContext,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        rows: TaskRows,
        keep: Callable[[str], None] | None,
    ) -> None:
        """`keep` stores the ticket under a file name after every epoch."""
        inputs = context.inputs
        settings = Retraining.model_validate(inputs["retraining"])
        encoded = encode_training_rows(context, tokenizer, rows, settings.adversary)
        encoded, task_loss = debiased(context, settings.debiasing, encoded)
        batches = Batches(encoded, settings.batch_size, inputs["seed"], model.device)
        loss, self._critic = _loss(settings.regulariser, task_loss, model, tokenizer, inputs["seed"])
        trained = nn.ModuleList(part for part in (model, self._critic) if part is not None)
        recipe = Recipe.of(settings, batches, loss, inputs["seed"], settings.adversary)
        self._keep, self._look = keep, _Look(inputs, tokenizer, rows)
        self._start = Start.model_validate(inputs.get("start", {}))
        self._start.check(recipe.total_steps)
        super().__init__(
            model,
            build_optimizer(trained, settings.learning_rate, settings.weight_decay),
            recipe,
            ends=range(batches.steps_per_epoch, recipe.total_steps + 1, batches.steps_per_epoch),
            last=self._start.steps if self._start.at == "steps" else None,
        )

    def parts(self) -> dict[str, Part]:
        """The model, and the critic of InfoBERT."""
        return {"model": self.model, **({} if self._critic is None else {"critic": self._critic})}

    def record(self, number: int, loss: float) -> Record:
        """Measure the model after an epoch and store it if asked to."""
        if self._keep is not None:
            self._keep(epoch_file(number))
        return self._look.at(self.model, number, loss)

    def after_step(self) -> None:
        """With the patience rule, look at the select rows every `interval` steps."""
        if self._start.at == "patience" and self.step % self._start.interval == 0:
            self.report({"step": self.step, "look": self._look.clean(self.model)})

    def enough(self) -> bool:
        """Whether the patience rule ends the fine-tuning, because the pruning starts here."""
        looks = [record["look"] for record in self.history if "look" in record]
        return out_of_patience(looks, self._start.patience, self._start.improvement)


def out_of_patience(looks: Iterable[float], patience: int, improvement: float) -> bool:
    """Whether none of the last `patience` looks was more than `improvement` above the best one before it."""
    best, in_vain = float("-inf"), 0
    for look in looks:
        if look - best > improvement:
            best, in_vain = look, 0
        else:
            in_vain += 1
    return in_vain >= patience


def _loss(
    settings: Regulariser, task: TaskLoss, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, seed: int
) -> tuple[Loss, Critic | None]:
    """The loss, and its critic, which trains together with the model."""
    if settings.kind == "none":
        return task, None
    critic = Critic(model.config.hidden_size, settings.critic_width, seed).to(model.device)
    return InfoBert(settings, critic, framing_tokens(tokenizer), task), critic


class _Look:
    """Clean accuracy and the cheap probe on select rows. Trials are compared by these while they train."""

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
        # Kappa, not accuracy: a constant predictor survives every probe and must not look good.
        score = 100.0 * math.sqrt(max(0.0, agreement(predicted, self._select.labels)) * probed / 100.0)
        return {"epoch": epoch, "step": epoch, "loss": loss, "clean": clean, "probe": probed, "probe_score": score}

    def clean(self, model: PreTrainedModel) -> float:
        """Accuracy on the select rows alone."""
        return clean_figures(self._predicted(model), self._select.labels).accuracy

    def _predicted(self, model: PreTrainedModel) -> Tensor:
        return predict(model, self._select, self._batch_size)


def _ticket(
    inputs: dict[str, Any],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    mask: StructuredMask,
    rows: TaskRows,
) -> Ticket:
    metadata = TicketMetadata(
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
    return Ticket(weights, mask, tokenizer_files(tokenizer), metadata)
