"""The ticket card: what hubs and people read in it, and that hostile names do no harm."""

from dataclasses import replace

from ruamel.yaml import YAML

from tests.tracking.conftest import make_outcome, make_summary, make_trial
from tune_tickets.export.card import background_of, card, escaped
from tune_tickets.export.exporting import export_ticket
from tune_tickets.export.subject import find_subject
from tune_tickets.results.records import TransferFigures
from tune_tickets.results.summary import write_summary
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import save_ticket

HOSTILE = "</td><script>alert(1)</script> | `x` [a](javascript:b) \n---\nlicense: mit\n\x1b[31m"


def read(folder):
    page = (folder / "README.md").read_text(encoding="utf-8")
    _, header, body = page.split("---\n", 2)
    return YAML(typ="safe").load(header), body


def test_the_header_has_what_model_hubs_read(make):
    file, _ = make(backbone="bert-base-uncased")
    header, body = read(export_ticket(str(file), "pruned"))
    assert header == {
        "base_model": "bert-base-uncased",
        "library_name": "tune_tickets",
        "metrics": ["accuracy"],
        "pipeline_tag": "text-classification",
        "tags": ["lottery-ticket", "pruning", "robustness", "tune_tickets"],
    }
    assert "a subnetwork of bert\\-base\\-uncased, found by the method earlyrobust" in body
    assert "| method.gamma | 0.1 |" in body
    assert "| clean | 81.5 |" in body
    assert "rows that guided the search" in body


def test_the_library_is_that_of_the_format(make):
    file, _ = make()
    assert read(export_ticket(str(file), "hf"))[0]["library_name"] == "transformers"


def test_a_backbone_on_the_authors_machine_is_not_told(make):
    file, _ = make(backbone="/home/someone/secret/my-bert")
    header, body = read(export_ticket(str(file), "pruned"))
    assert "base_model" not in header
    assert "my\\-bert" in body
    assert "secret" not in body


def test_in_a_results_folder_figures_come_with_fingerprints_intervals_and_rows(make, tmp_path):
    outcome = make_outcome()
    file, _ = make(name="best_ticket.safetensors", params={"method.gamma": 0.1}, metrics=outcome.metrics())
    write_summary(make_summary([make_trial(0, outcome=outcome)]), file.parent)
    (file.parent / "config.yaml").write_text("task: {source: bundled/rotten-tomatoes}\n")
    header, body = read(export_ticket(str(file.parent), "pruned"))
    assert "| clean accuracy, % |  | 84.0 ±7.5 | 100 |" in body
    assert "| accuracy under textfooler/minilm, % | f00d | 23.0 \\[10.0\\-40.0\\] | 4 |" in body
    (entry,) = header["model-index"]
    assert entry["results"][0]["dataset"]["type"] == "bundled/rotten-tomatoes"
    assert entry["results"][0]["metrics"] == [{"type": "accuracy", "value": 0.84}]


def test_a_ticket_for_a_further_task_names_that_task(make):
    there = make_outcome(clean=61.0)
    outcome = make_outcome().model_copy(update={"transfers": (TransferFigures(name="qa", outcome=there, stages=()),)})
    file, _ = make(name="best_ticket.qa.safetensors", params={"method.gamma": 0.1}, metrics=there.metrics())
    write_summary(make_summary([make_trial(0, outcome=outcome)]), file.parent)
    config = "task: {source: bundled/imdb}\ntransfer: {qa: {task: {source: /home/me/questions.csv}}}\n"
    (file.parent / "config.yaml").write_text(config)
    (entry,) = read(export_ticket(str(file), "pruned"))[0]["model-index"]
    assert entry["results"][0]["dataset"]["type"] == "questions.csv"
    assert entry["results"][0]["metrics"] == [{"type": "accuracy", "value": 0.61}]


def test_figures_of_another_ticket_are_not_taken(make):
    file, _ = make(name="best_ticket.safetensors", params={"method.gamma": 0.1}, metrics={"clean": 12.0})
    write_summary(make_summary([make_trial(0)]), file.parent)
    assert background_of(find_subject(str(file))).outcome is None


def test_layers_are_counted_from_one_as_in_the_pictures(make):
    subject = find_subject(str(make()[0]))
    page = card(subject, "pruned", background_of(subject))
    rows = page[page.index("| layer | heads | neurons |") :].splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows if row.startswith("| ")][:2] == ["| 1", "| 2"]


def test_single_weights_that_were_cut_are_counted_and_none_of_them_is_left(make):
    file, ticket = make(method="robustt")
    whole = sum(
        weight.numel() for name, weight in ticket.weights.items() if "embeddings." not in name or "Norm" in name
    )
    ticket.weights["bert.encoder.layer.0.attention.self.query.weight"][:5, :10] = 0
    save_ticket(ticket, file)
    body = read(export_ticket(str(file), "pruned"))[1]
    assert "50 single weights are cut, which stay in the file as zeros" in body
    assert f"; {whole - 50:,} parameters without the embeddings are left" in body


def test_a_whole_model_is_no_subnetwork(make):
    file, ticket = make(method="finetune")
    subject = find_subject(str(file))
    whole = replace(ticket, mask=StructuredMask.full(2, 4, 24))
    body = card(replace(subject, ticket=whole), "pruned", background_of(subject))
    assert "The whole model tiny, trained with the method finetune: nothing is cut; " in body
    assert "a subnetwork of" not in body


def test_a_ticket_at_full_size_is_not_said_to_be_whole(exported):
    subject = find_subject(str(exported("hf").folder))
    body = card(subject, "onnx", background_of(subject))
    matrices = [weight for name, weight in subject.model.named_parameters() if weight.ndim == 2 and "embed" not in name]
    zeros = sum(int((weight == 0).sum()) for weight in matrices)
    assert zeros > 500
    assert f" parameters, {zeros:,} of them zero." in body


def test_hostile_names_stay_text(make):
    file, _ = make(
        backbone="tiny", method=HOSTILE, params={HOSTILE: HOSTILE}, labels=(HOSTILE, "b"), text_columns=(HOSTILE,)
    )
    subject = find_subject(str(file))
    for form in ("hf", "pruned", "onnx"):
        page = card(subject, form, background_of(subject))
        _, header, body = page.split("---\n", 2)
        assert "license" not in YAML(typ="safe").load(header)
        assert "<script" not in page
        assert "\x1b" not in page
        assert "](" not in body
        row = next(line for line in body.splitlines() if line.startswith("| method.kind"))
        assert row.replace("\\|", "").count("|") == 3, "the hostile bar makes no cell"


def test_escaping_leaves_plain_words_alone():
    assert escaped("method.gamma 0.1") == "method.gamma 0.1"
    assert escaped("a|b") == "a\\|b"
