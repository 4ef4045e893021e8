"""Exports of tickets that read the mean of all tokens."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from tests.export.conftest import PAIR
from tests.export.test_exporting import logits, rows_for
from tests.models.tiny import FAMILIES
from tune_tickets.config.task import Model
from tune_tickets.export.card import FILE
from tune_tickets.export.mean_pooling import CODE_FILE
from tune_tickets.models.backbone import load_backbone
from tune_tickets.models.classifier import load_classifier
from tune_tickets.models.families.base import POOLING
from tune_tickets.models.loading import load_ticket
from tune_tickets.models.source import resolved_pooling

PLAIN = """
import json, sys
sys.modules["tune_tickets"] = None  # every import of it fails
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline
rows = json.loads(sys.argv[2])
try:
    AutoModelForSequenceClassification.from_pretrained(sys.argv[1], trust_remote_code=False)
except ValueError as error:
    refused = str(error)
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
inputs = tokenizer(*map(list, zip(*rows)), truncation=True, padding=True, return_tensors="pt")
with torch.inference_mode():
    logits = model(**inputs).logits.tolist()
classifier = pipeline("text-classification", model=sys.argv[1], trust_remote_code=True)
texts = [dict(zip(("text", "text_pair"), row)) for row in rows]
scores = [classifier(text, truncation=True, top_k=None) for text in texts]
model.save_pretrained(sys.argv[3])
tokenizer.save_pretrained(sys.argv[3])
again = AutoModelForSequenceClassification.from_pretrained(sys.argv[3], trust_remote_code=True)
with torch.inference_mode():
    saved = again(**inputs).logits.tolist()
parameters, names = model.num_parameters(), [name for name, _ in model.named_parameters()]
print(json.dumps([refused, logits, scores, saved, parameters, names]))
"""


def run_plain(folder, rows, tmp_path):
    """Load a folder in a process that cannot import this package."""
    command = [sys.executable, "-c", PLAIN, str(folder), json.dumps(rows), str(tmp_path / "saved")]
    environment = {"HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1", "PATH": "", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "not supported" not in done.stderr
    assert "newly initialized" not in done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.integration
@pytest.mark.parametrize(("family", "columns"), [("bert", ("text",)), ("bert", PAIR), ("roberta", ("text",))])
def test_plain_transformers_loads_the_folder_with_the_code_in_it(family, columns, exported, tmp_path):
    file, _, folder = exported("hf", family, columns, pooling="mean")
    ticket, rows = load_ticket(file), rows_for(columns)
    refused, found, scores, saved, parameters, names = run_plain(folder, rows, tmp_path)
    expected = logits(ticket, rows)
    assert "trust_remote_code" in refused
    assert (torch.tensor(found) - expected).abs().max() < 1e-5
    assert saved == found
    for row, probabilities in zip(scores, expected.softmax(dim=-1), strict=True):
        by_label = {entry["label"]: entry["score"] for entry in row}
        assert abs(by_label["pos"] - float(probabilities[1])) < 1e-5
    assert parameters == sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())
    assert not [name for name in names if "pooler" in name]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exported_folder_is_read_here_without_running_its_code(family, exported):
    file, _, folder = exported("hf", family, pooling="mean")
    (folder / CODE_FILE).rename(folder / "gone")
    try:
        classifier, rows = load_classifier(str(folder)), rows_for(("text",))
        expected = logits(load_ticket(file), rows).double().softmax(dim=-1)
        assert (classifier.probabilities(rows) - expected).abs().max() < 1e-5
        # It can be an encoder to start from. Made for the mean, unless the experiment says otherwise.
        assert resolved_pooling(Model(source=str(folder))) == "mean"
        again, _ = load_backbone(Model(source=str(folder)), ("neg", "pos"), seed=0)
        bias = "classifier.bias" if family == "bert" else "classifier.out_proj.bias"
        assert torch.equal(again.get_parameter(bias), classifier.model.get_parameter(bias))
        first, _ = load_backbone(Model(source=str(folder), pooling="first"), ("neg", "pos"), seed=0)
        assert POOLING not in first.config.to_dict()
        assert first.config.model_type == again.config.model_type == family
    finally:
        (folder / "gone").rename(folder / CODE_FILE)


def test_the_card_says_how_to_load_it(exported):
    mean, first = (exported("hf", pooling=pooling).folder for pooling in ("mean", "first"))
    page = (mean / FILE).read_text()
    assert 'pipeline("text-classification", model=".", trust_remote_code=True)' in page
    assert f"`{CODE_FILE}` has the code" in page
    assert "trust_remote_code" not in (first / FILE).read_text()
    assert not (first / CODE_FILE).exists()
    assert "auto_map" not in json.loads((first / "config.json").read_text())


@pytest.mark.integration
@pytest.mark.parametrize("family", FAMILIES)
def test_onnxruntime_takes_the_mean_for_any_batch_and_length(family, exported):
    import onnxruntime

    file, _, folder = exported("onnx", family, pooling="mean")
    session, ticket, rows = onnxruntime.InferenceSession(folder / "model.onnx"), load_ticket(file), rows_for(("text",))
    for batch in (rows, *([row] for row in rows), rows * 7):
        inputs = ticket.tokenizer(
            [text for (text,) in batch], truncation=True, max_length=8, padding=True, return_tensors="np"
        )
        (found,) = session.run(["logits"], dict(inputs))
        assert abs(torch.from_numpy(found) - logits(ticket, batch)).max() < 1e-4


def test_the_small_model_keeps_its_pooling(exported):
    file, _, folder = exported("pruned", pooling="mean")
    rows = rows_for(("text",))
    assert torch.equal(logits(load_ticket(folder), rows), logits(load_ticket(file), rows))
