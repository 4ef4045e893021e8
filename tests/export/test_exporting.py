"""Every format: the folder loads without the packages it must not need, and gives the ticket's answers."""

import json
import re

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import tune_tickets
from tests.export.conftest import PAIR
from tests.models.tiny import FAMILIES, NEURONS, WIDTH, save_checkpoint
from tune_tickets.errors import ConfigError, ResourceError, TicketsError
from tune_tickets.export import onnx_model
from tune_tickets.export.exporting import FORMATS, export_ticket
from tune_tickets.models.classifier import load_classifier
from tune_tickets.models.loading import load_ticket

TEXTS = ["the film was good", "a bad plot with bad films", "fine", "", "dull " * 30]


def rows_for(columns):
    return [(text,) if len(columns) == 1 else (text, "good films") for text in TEXTS]


def logits(ticket, rows):
    inputs = ticket.tokenizer(
        *map(list, zip(*rows, strict=True)), truncation=True, max_length=8, padding=True, return_tensors="pt"
    )
    with torch.inference_mode():
        return ticket.model(**inputs).logits


@pytest.mark.parametrize("columns", [("text",), PAIR], ids=len)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_transformers_folder_loads_without_our_package_and_answers_alike(family, columns, exported):
    file, _, folder = exported("hf", family, columns)
    assert folder == file.parent / "mine-hf"
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = rows_for(columns)
    # Truncation without a length: the folder knows where the ticket cuts.
    inputs = tokenizer(*map(list, zip(*rows, strict=True)), truncation=True, padding=True, return_tensors="pt")
    assert inputs["input_ids"].shape[1] == 8
    with torch.inference_mode():
        assert (model(**inputs).logits - logits(load_ticket(file), rows)).abs().max() < 1e-5
    assert model.config.id2label == {0: "neg", 1: "pos"}
    assert model.num_parameters() == AutoModelForSequenceClassification.from_config(model.config).num_parameters()
    assert not [path for path in folder.rglob("*") if path.suffix in (".bin", ".pkl", ".pt")]


@pytest.mark.integration
@pytest.mark.parametrize(("family", "columns"), [("bert", PAIR), ("bert", ("text",)), ("roberta", ("text",))])
def test_onnxruntime_gives_the_tickets_logits_for_any_batch_and_length(family, columns, exported):
    import onnxruntime

    file, _, folder = exported("onnx", family, columns)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    ticket, tokenizer = load_ticket(file), AutoTokenizer.from_pretrained(folder)
    rows = rows_for(columns)
    for batch in (rows, *([row] for row in rows), rows * 7):
        inputs = tokenizer(*map(list, zip(*batch, strict=True)), truncation=True, padding=True, return_tensors="np")
        (found,) = session.run(["logits"], dict(inputs))
        assert abs(torch.from_numpy(found) - logits(ticket, batch)).max() < 1e-4
    told = session.get_modelmeta().custom_metadata_map
    assert (json.loads(told["labels"]), told["max_length"]) == (["neg", "pos"], "8")
    shapes = {node.name: node.shape for node in session.get_inputs()}
    assert set(shapes) == set(tokenizer.model_input_names)
    assert all(isinstance(size, str) for shape in shapes.values() for size in shape), "batch and length are free"
    assert (folder / "tokenizer.json").is_file()


@pytest.mark.integration
@pytest.mark.parametrize("form", ["hf", "pruned"])
def test_others_may_read_what_is_made_to_be_given_away(exported, form):
    file, _, folder = exported(form)
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in (file, *folder.iterdir())} == dict.fromkeys(
        (file.name, *(path.name for path in folder.iterdir())), "0o644"
    )


def test_the_onnx_model_is_the_small_one(exported):
    import onnx

    _, ticket, folder = exported("onnx")
    stored = onnx.load(folder / "model.onnx").graph.initializer
    sizes = [tuple(sorted(tensor.dims)) for tensor in stored if len(tensor.dims) == 2]
    for kept in ticket.mask.neurons_kept():
        assert sizes.count(tuple(sorted((WIDTH, kept)))) >= 2, "both matrices of the layer have only what is kept"
    assert tuple(sorted((WIDTH, NEURONS))) not in sizes


@pytest.mark.integration
@pytest.mark.parametrize("form", FORMATS)
def test_layers_without_neurons_are_exported(form, exported):
    assert exported(form, neurons=0.9999).folder.is_dir()


def test_the_pruned_folder_is_loaded_by_our_loader(make):
    file, ticket = make()
    folder = export_ticket(str(file), "pruned")
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "ticket.safetensors"]
    loaded = tune_tickets.load_ticket(folder)
    assert loaded.predict(TEXTS) == load_ticket(file).predict(TEXTS)
    assert loaded.mask.digest() == ticket.mask.digest()
    assert load_classifier(str(folder)).labels == ("neg", "pos")
    again = export_ticket(str(folder), "hf")
    assert again == folder.parent / "mine-pruned-hf"


def test_a_results_folder_gives_its_best_ticket_and_those_of_further_tasks(make, tmp_path):
    make(name="best_ticket.safetensors", labels=("no", "yes"))
    make(name="best_ticket.imdb.safetensors")
    results = tmp_path / "results"
    assert load_ticket(results).labels == ("no", "yes")
    folder = export_ticket(str(results), "pruned")
    assert (folder, load_ticket(folder).labels) == (results / "best_ticket-pruned", ("no", "yes"))
    further = export_ticket(str(results), "pruned", task="imdb")
    assert (further, load_ticket(further).labels) == (results / "best_ticket.imdb-pruned", ("neg", "pos"))
    with pytest.raises(ConfigError, match=r"no ticket for the further task 'qnli'; it has imdb"):
        export_ticket(str(results), "pruned", task="qnli")


@pytest.mark.integration
def test_a_transformers_folder_becomes_onnx_and_nothing_else(exported, tmp_path):
    whole = exported("hf").folder
    folder = export_ticket(str(whole), "onnx", tmp_path / "onnx")
    assert "A text classifier of" in (folder / "README.md").read_text()
    for form in ("hf", "pruned"):
        with pytest.raises(ConfigError, match="use --format onnx"):
            export_ticket(str(whole), form, tmp_path / "no")
    assert not (tmp_path / "no").exists()


@pytest.mark.integration
@pytest.mark.parametrize("columns", [("text",), PAIR], ids=len)
@pytest.mark.parametrize("form", FORMATS)
def test_the_three_lines_in_the_card_run_as_they_stand(form, columns, exported, monkeypatch, capsys):
    folder = exported(form, columns=columns).folder
    page = (folder / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(code.splitlines()) == 3
    monkeypatch.chdir(folder)
    exec(code, {})
    assert re.search(r"\d\.\d", capsys.readouterr().out), "it answers with numbers"


@pytest.mark.integration
def test_other_logits_in_onnxruntime_are_an_error_and_leave_nothing(make, monkeypatch):
    file, _ = make()
    write = onnx_model.to_onnx

    def wrong(model, names, path, story):
        with torch.no_grad():
            before = next(model.classifier.parameters()).clone()
            next(model.classifier.parameters()).add_(0.01)
            write(model, names, path, story)
            next(model.classifier.parameters()).copy_(before)

    monkeypatch.setattr(onnx_model, "to_onnx", wrong)
    with pytest.raises(TicketsError, match=r"the logits of onnxruntime and torch differ by .*nothing was written"):
        export_ticket(str(file), "onnx")
    assert [path.name for path in file.parent.iterdir()] == ["mine.safetensors"]


def test_without_the_packages_the_error_says_how_to_install_them(make, monkeypatch):
    file, _ = make()
    monkeypatch.setattr(onnx_model, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"pip install 'tune_tickets\[onnx\]'"):
        export_ticket(str(file), "onnx")


def test_an_earlier_export_is_replaced_only_if_asked_for(make):
    file, _ = make()
    folder = export_ticket(str(file), "pruned")
    (folder / "stale").touch()
    with pytest.raises(ConfigError, match="replace it with --force"):
        export_ticket(str(file), "pruned")
    assert (folder / "stale").exists()
    export_ticket(str(file), "pruned", force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "ticket.safetensors"]


def test_what_is_no_export_is_never_replaced(make, tmp_path):
    file, _ = make()
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "README.md").write_text("my notes")
    for target in (precious, precious / "README.md"):
        with pytest.raises(ConfigError, match="is not an export of a ticket"):
            export_ticket(str(file), "pruned", target, force=True)
    assert (precious / "README.md").read_text() == "my notes"


def test_what_cannot_be_exported_is_a_clear_error(make, tmp_path):
    file, _ = make()
    with pytest.raises(ConfigError, match="--format 'tflite' is unknown"):
        export_ticket(str(file), "tflite")
    save_checkpoint("bert", tmp_path / "encoder")
    with pytest.raises(ResourceError, match="is no trained classifier"):
        export_ticket(str(tmp_path / "encoder"), "onnx")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResourceError, match="is neither a results folder with a best ticket"):
        export_ticket(str(tmp_path / "empty"), "onnx")
    with pytest.raises(ResourceError, match=r"holds no ticket\.safetensors or best_ticket\.safetensors"):
        load_ticket(tmp_path / "empty")
