"""The masked language model of an attack: fitted by a stage, or the one that was resolved on this machine."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.config.evaluation import Fitting
from tune_tickets.config.task import Model
from tune_tickets.config.training import Adversary
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.bodies.start import device_of, keep_training, restore_training
from tune_tickets.methods.given import load_corpus
from tune_tickets.models.masked_lm import load_masked_lm_backbone, masked_lm_files, masked_lm_from_files
from tune_tickets.training.batches import EncodedRows
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.masked_lm import (
    MaskedBatches,
    Masking,
    build_masked_lm_optimizer,
    encode_texts,
    masked_accuracy,
    masked_cross_entropy,
    start_from_frequencies,
)
from tune_tickets.training.schedule import mini_epoch_steps, total_steps
from tune_tickets.training.state import TrainState

if TYPE_CHECKING:
    from tune_tickets.attacks.masked_words import MaskedLM


_FOLDER = "masked_lm"
_MEASURED_SHARE = 0.15  # of the held-out tokens, whatever share is masked in fitting
_REPORTS = 10


def run(context: StageContext) -> StageOutput:
    """Fit what has to be fitted, measure, keep the model as a transformers folder."""
    inputs = context.inputs
    settings = Fitting.model_validate(inputs["masked_lm"])
    backbone = load_masked_lm_backbone(Model.model_validate(inputs["model"]), inputs["seed"])
    model, tokenizer = backbone.model, backbone.tokenizer
    model.to(device_of(context.resources))  # type: ignore[arg-type]
    texts = load_corpus(context)
    held_out, training = texts[: settings.held_out], texts[settings.held_out :]
    rows = encode_texts(tokenizer, training, settings.max_length, settings.blocks)
    if not backbone.has_head:
        _fit(context, model, rows, settings, Masking.of(tokenizer, settings.mask_probability))
    accuracy = masked_accuracy(
        model,
        encode_texts(tokenizer, held_out, settings.max_length, blocks=False),
        Masking.of(tokenizer, _MEASURED_SHARE),
        settings.batch_size,
        inputs["seed"],
    )
    for name, content in masked_lm_files(model, tokenizer).items():
        context.attempt.put(f"{_FOLDER}/{name}", content)
    return StageOutput({"fitted": not backbone.has_head, "texts": len(training), **asdict(accuracy)})


def load_masked_lm(context: StageContext, role: str = "masked_lm") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model and tokenizer of an upstream `masked_lm` stage, in eval mode, on the CPU."""
    result = context.upstream(role)
    files = {
        name.removeprefix(f"{_FOLDER}/"): context.store.read(result, name)
        for name in result.files
        if name.startswith(f"{_FOLDER}/")
    }
    return masked_lm_from_files(files, f"stage masked_lm {result.key.digest[:12]}")


def _fit(context: StageContext, model: PreTrainedModel, rows: EncodedRows, settings: Fitting, masking: Masking) -> None:
    seed = context.inputs["seed"]
    start_from_frequencies(model, rows, masking.special_ids)
    batches = MaskedBatches(rows, settings.batch_size, seed, masking, model.device)
    state = TrainState(model, build_masked_lm_optimizer(model, settings))
    recipe = Recipe(
        batches=batches,
        loss=masked_cross_entropy,
        adversary=Adversary(kind="none"),
        total_steps=total_steps(batches.steps_per_epoch, settings.epochs),
        warmup=settings.warmup,
        clip=settings.clip,
        seed=seed,
    )
    restore_training(context, state)
    every = max(1, recipe.total_steps // _REPORTS)
    mini_epoch = mini_epoch_steps(batches.steps_per_epoch)
    for step, loss in train(state, recipe):
        state.losses = state.losses + loss
        context.progress(step, recipe.total_steps)
        if step % every == 0:
            context.report({"step": step // every, "loss": float(state.losses) / every})
            state.losses = torch.zeros_like(state.losses)
        if step < recipe.total_steps:
            keep_training(context, state, mini_epoch)


def masked_lm_of(context: StageContext, threat: ThreatModel) -> "MaskedLM | None":
    """What proposes the words of the threat model; None if something else does."""
    if "masked-lm" not in threat.sources:
        return None
    from tune_tickets.attacks.masked_words import MaskedLM, resolved_masked_lm  # imports TextAttack

    device = device_of(context.resources)
    if not threat.fits_masked_lm:
        return resolved_masked_lm(device)
    model, tokenizer = load_masked_lm(context)
    model.to(device)  # type: ignore[arg-type]
    return MaskedLM(model, tokenizer, context.stage.upstream["masked_lm"].digest)
