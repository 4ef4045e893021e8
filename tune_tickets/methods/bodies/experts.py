"""Stages `bias` and `teacher`: experts whose predictions for the training rows a debiasing loss reads."""

from collections.abc import Sequence

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from tune_tickets.config.task import Model
from tune_tickets.config.training import BiasModel, Debiasing
from tune_tickets.data.bias import WordVectors, bias_features, fit_bias_model
from tune_tickets.data.task import Example
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.errors import DataError
from tune_tickets.methods.bodies.evaluate import load_trained
from tune_tickets.methods.bodies.start import encode_rows
from tune_tickets.methods.given import TaskRows, load_rows, load_vectors, task_words
from tune_tickets.models.backbone import input_embeddings
from tune_tickets.training.batches import EncodedRows
from tune_tickets.training.evaluation import clean_figures, log_probabilities
from tune_tickets.training.losses import TaskLoss

_FILE = "log_probabilities.safetensors"
_NAME = "log_probabilities"


def debiased(context: StageContext, debiasing: Debiasing, rows: EncodedRows) -> tuple[EncodedRows, TaskLoss]:
    """The training rows with the predictions of the upstream experts, and the loss that reads them."""
    columns = {role: load(context.store.read(context.upstream(role), _FILE))[_NAME] for role in debiasing.experts}
    return rows.with_columns(columns), TaskLoss(debiasing)


def predict_as_teacher(context: StageContext) -> StageOutput:
    """Predict every training row once with the fine-tuned model."""
    teacher = load_trained(context)
    encoded = encode_rows(teacher.tokenizer, load_rows(context).train, teacher.metadata.max_length)
    predicted = log_probabilities(teacher.model, encoded, context.inputs["eval_batch_size"])
    _keep(context, predicted)
    accuracy = clean_figures(predicted.argmax(dim=-1), encoded.labels).accuracy
    return StageOutput({"figures": {"train_accuracy": accuracy}})


def fit_bias(context: StageContext) -> StageOutput:
    """Fit the bias model on the training rows, predict them, and measure it on the select rows."""
    settings = BiasModel.model_validate(context.inputs["bias"])
    rows = load_rows(context)
    vectors = _vectors(context, settings, rows)

    def features(examples: Sequence[Example]) -> np.ndarray:
        return bias_features(settings, rows.columns, [row.texts for row in examples], vectors)

    train, select = features(rows.train), features(rows.select)
    labels, select_labels = (np.array([row.label for row in part]) for part in (rows.train, rows.select))
    fitted = fit_bias_model(train, labels, rows.labels, settings.folds, context.inputs.get("seed", 0))
    _keep(context, torch.from_numpy(fitted.log_probabilities))
    degree = np.exp(fitted.log_probabilities[np.arange(len(labels)), labels])
    figures = {
        "train_accuracy": 100.0 * float((fitted.log_probabilities.argmax(axis=1) == labels).mean()),
        "select_accuracy": fitted.accuracy(select, select_labels),
        "bias_degree": 100.0 * float(degree.mean()),
    }
    words = 0 if vectors is None else len(vectors.words)
    return StageOutput({"figures": figures, "features": train.shape[1], "words_with_vectors": words})


def _keep(context: StageContext, predicted: Tensor) -> None:
    """Store the log-probabilities of all training rows, [rows, labels]."""
    context.attempt.put(_FILE, save({_NAME: predicted.float().contiguous()}))


def _vectors(context: StageContext, settings: BiasModel, rows: TaskRows) -> WordVectors | None:
    if not settings.reads_vectors:
        return None
    if settings.reads_file:
        return load_vectors(context)
    words = sorted(task_words((*rows.train, *rows.select)))
    found = input_embeddings(Model.of_stage(context.inputs["model"]), words)
    if not found:
        raise DataError(
            "the vocabulary of the encoder has none of the words of the task, so its input embeddings cannot measure "
            "overlap; set debiasing.bias.vectors to word vectors in the language of the task"
        )
    return WordVectors(tuple(found), torch.stack(list(found.values())).double().numpy())
