"""Stage `bias`: the bias model, and how far its features give away the label of every training row."""

from collections.abc import Sequence

import numpy as np
import torch

from tune_tickets.config.task import Model
from tune_tickets.config.training import BiasModel
from tune_tickets.data.bias import WordVectors, bias_features, fit_bias_model
from tune_tickets.data.task import Example
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.errors import DataError
from tune_tickets.methods.bodies.start import keep_log_probabilities
from tune_tickets.methods.given import TaskRows, load_rows, load_vectors, task_words
from tune_tickets.models.backbone import input_embeddings


def run(context: StageContext) -> StageOutput:
    """Fit on the training rows, predict them, and see what the features are worth on the select rows."""
    settings = BiasModel.model_validate(context.inputs["bias"])
    rows = load_rows(context)
    vectors = _vectors(context, settings, rows)

    def features(examples: Sequence[Example]) -> np.ndarray:
        return bias_features(settings, rows.columns, [row.texts for row in examples], vectors)

    train, select = features(rows.train), features(rows.select)
    labels, select_labels = (np.array([row.label for row in part]) for part in (rows.train, rows.select))
    fitted = fit_bias_model(train, labels, rows.labels, settings.folds, context.inputs.get("seed", 0))
    keep_log_probabilities(context, torch.from_numpy(fitted.log_probabilities))
    degree = np.exp(fitted.log_probabilities[np.arange(len(labels)), labels])
    figures = {
        "train_accuracy": 100.0 * float((fitted.log_probabilities.argmax(axis=1) == labels).mean()),
        "select_accuracy": fitted.accuracy(select, select_labels),
        "bias_degree": 100.0 * float(degree.mean()),
    }
    words = 0 if vectors is None else len(vectors.words)
    return StageOutput({"figures": figures, "features": train.shape[1], "words_with_vectors": words})


def _vectors(context: StageContext, settings: BiasModel, rows: TaskRows) -> WordVectors | None:
    if not settings.reads_vectors:
        return None
    if settings.reads_file:
        return load_vectors(context)
    words = sorted(task_words((*rows.train, *rows.select)))
    found = input_embeddings(Model.model_validate(context.inputs["model"]), words)
    if not found:
        raise DataError(
            "the encoder's vocabulary has none of the task's words, so its input embeddings tell nothing of overlap; "
            "name word vectors in the language of the task in debiasing.bias.vectors"
        )
    return WordVectors(tuple(found), torch.stack(list(found.values())).double().numpy())
