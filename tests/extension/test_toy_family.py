"""A model family that is one class outside the package goes through the whole command line."""

import time

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.extension.toy_family import ToyConfig, ToyForSequenceClassification, ToyModel
from tests.integration.conftest import ROOT, TAG, left_behind
from tests.integration.test_search import runs_of, summary_of
from tests.models.tiny import gates_for
from tune_tickets import load_ticket
from tune_tickets.config.task import Model
from tune_tickets.models.backbone import load_backbone
from tune_tickets.models.families import KEY, family_of
from tune_tickets.models.surgery import prune, regrow, relative_flops
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.survival import survival
from tune_tickets.tickets.unstructured import UnstructuredMask

FAMILY = "tests.extension.toy_family:ToyFamily"
SMALL = ("evaluation.rows=4", "objective.floor_points=null", "search.trials=2", "search.concurrency=1")


@pytest.fixture
def environment(environment):
    """The module of the family is on the path of the driver and of every worker."""
    return environment | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def toy_backbone(tiny_backbone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    ToyModel(ToyConfig(vocab_size=len(tokenizer))).save_pretrained(folder, safe_serialization=True)
    return folder


@pytest.fixture
def toy_yaml(tiny_yaml, tiny_backbone, toy_backbone):
    written = tiny_yaml.read_text(encoding="utf-8")
    named = f"model: {{source: {toy_backbone}, family: '{FAMILY}'}}"
    path = tiny_yaml.with_name("toy.yaml")
    path.write_text(written.replace(f"model: {{source: {tiny_backbone}}}", named), encoding="utf-8")
    assert FAMILY in path.read_text(encoding="utf-8")
    return path


def test_it_is_gated_sliced_and_grown_like_any_other(toy_backbone):
    model, tokenizer = load_backbone(Model(source=str(toy_backbone), family=FAMILY), ("neg", "pos"), seed=0)
    batch = tokenizer(["a good film", "a dull and bleak story with music"], padding=True, return_tensors="pt")
    mask = StructuredMask.full(2, 4, 48)
    mask.heads[0, 1], mask.heads[1, :3], mask.neurons[0, ::2], mask.neurons[1, 40:] = False, False, False, False
    with torch.no_grad():
        dense = model(**batch).logits
        gates, attachment = gates_for(model)
        gates.heads.data, gates.neurons.data = mask.heads.float(), mask.neurons.float()
        with attachment:
            gated = model(**batch).logits
        assert relative_flops(model, 10) == 100.0
        prune(model, mask)
        assert relative_flops(model, 10) < 70.0
        assert (model(**batch).logits - gated).abs().max() < 1e-5
        assert (gated - dense).abs().max() > 1e-3
        assert (regrow(model, mask)(**batch).logits - gated).abs().max() < 1e-5


def test_its_matrices_have_places_in_pictures(toy_backbone):
    model, _ = load_backbone(Model(source=str(toy_backbone), family=FAMILY), ("neg", "pos"), seed=0)
    family = family_of(model)
    kept = {
        name: torch.ones_like(linear.weight, dtype=torch.bool) for name, linear in family.weight_matrices(model).items()
    }
    kept["toy.blocks.1.attn.qkv.weight"][32:40] = False  # the key of the first head, a quarter of what it owns
    found = survival(UnstructuredMask(kept), family.place, heads=4)
    assert found.heads.tolist() == [[1.0] * 4, [0.75, 1.0, 1.0, 1.0]]
    assert found.mlp.tolist() == [1.0, 1.0]


@pytest.mark.integration
@pytest.mark.timeout(900)
def test_it_goes_through_the_whole_command_line(start, cli, toy_yaml, tmp_path, environment):
    out = tmp_path / "out"
    for verb in ("validate", "plan"):
        code, printed = cli(verb, toy_yaml, *SMALL)
        assert code == 0, printed
    assert "retrain" in printed
    kill_in_the_middle(start("run", toy_yaml, "--output", out, *SMALL))
    code, printed = cli("resume", out)
    assert code == 0, printed
    assert "load it with tune_tickets.load_ticket" in printed, printed
    summary = summary_of(out)
    assert summary.status == "finished"
    assert [(trial.id, trial.status) for trial in summary.trials] == [("t000", "complete"), ("t001", "complete")]
    runs = runs_of(out)
    assert len(runs) == 1 + 2 + 1, "the search, its trials, the dense control"
    assert {run.info.status for run in runs} == {"FINISHED"}
    check_pages(cli, out)
    check_exports(cli, out, tmp_path)
    deadline = time.monotonic() + 120  # Ray's agents look for the rest of a killed session for a minute
    while left_behind(environment[TAG]) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert left_behind(environment[TAG]) == []


def kill_in_the_middle(driver):
    """`kill -9`, once a ticket has been found and is trained."""
    for line in driver.stdout:
        if "retrain begins" in line:
            break
    assert driver.poll() is None, "the search was over before it could be killed"
    driver.kill()
    driver.communicate()


def check_pages(cli, out):
    code, printed = cli("report", out)
    assert code == 0, printed
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "t000" in page
    assert "dense" in page
    assert any((out / "pictures").iterdir())


def check_exports(cli, out, tmp_path):
    ticket = load_ticket(out)
    assert isinstance(ticket.model, ToyForSequenceClassification)
    assert ticket.model.config.to_dict()[KEY] == FAMILY
    heads = [layer.attn.heads for layer in ticket.model.toy.blocks]
    assert heads == list(ticket.mask.heads_kept())
    assert sum(heads) < 8
    texts = ["a good film", "a very dull plot"]
    answers = ticket.predict(texts)
    for form in ("pruned", "hf"):
        code, printed = cli("export", out, "--format", form, "--output", tmp_path / form)
        assert code == 0, printed
    assert load_ticket(tmp_path / "pruned").predict(texts) == answers
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    assert isinstance(model, ToyForSequenceClassification)
    assert [layer.attn.heads for layer in model.toy.blocks] == [4, 4]
    inputs = AutoTokenizer.from_pretrained(tmp_path / "hf")(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        shares = model(**inputs).logits.double().softmax(dim=-1).max(dim=-1).values.tolist()
    assert shares == pytest.approx([share for _, share in answers], abs=1e-4)
