"""The masked language model of an attack: fitted by a stage, or one that was found on this machine."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.attacks.threat import ThreatModel
from tune_tickets.config.evaluation import Fitting
from tune_tickets.config.task import Model
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.bodies.start import device_of
from tune_tickets.methods.given import load_corpus
from tune_tickets.models.masked_lm import load_masked_lm_backbone, masked_lm_files, masked_lm_from_files
from tune_tickets.training.batches import EncodedRows
from tune_tickets.training.masked_lm import (
    MaskedBatches,
    Masking,
    build_masked_lm_optimizer,
    encode_texts,
    masked_accuracy,
    masked_cross_entropy,
    start_from_frequencies,
)
from tune_tickets.training.trainer import Recipe, Trainer

if TYPE_CHECKING:
    from tune_tickets.attacks.masked_words import MaskedLM


_FOLDER = "masked_lm"
_MEASURED_SHARE = 0.15  # of the held-out tokens, independent of the share in fitting
_REPORTS = 10


def run(context: StageContext) -> StageOutput:
    """Fit a head unless the checkpoint has one, measure it, store the model as a transformers folder."""
    inputs = context.inputs
    settings = Fitting.model_validate(inputs["masked_lm"])
    backbone = load_masked_lm_backbone(Model.of_stage(inputs["model"]), inputs["seed"])
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
    recipe = Recipe.of(settings, batches, masked_cross_entropy, seed)
    every = max(1, recipe.total_steps // _REPORTS)
    ends = range(every, recipe.total_steps + 1, every)
    Trainer(model, build_masked_lm_optimizer(model, settings), recipe, ends=ends).run(context)


def masked_lm_of(context: StageContext, threat: ThreatModel) -> "MaskedLM | None":
    """The model that proposes words for the threat model; None if it takes them from elsewhere."""
    if "masked-lm" not in threat.sources:
        return None
    from tune_tickets.attacks.masked_words import MaskedLM, resolved_masked_lm  # imports TextAttack

    device = device_of(context.resources)
    if not threat.fits_masked_lm:
        return resolved_masked_lm(device)
    model, tokenizer = load_masked_lm(context)
    model.to(device)  # type: ignore[arg-type]
    return MaskedLM(model, tokenizer, context.stage.upstream["masked_lm"].digest)
