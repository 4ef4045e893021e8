"""Masked language models from backbones of both families: a new head, the checkpoint's own head, and saved files."""

import pytest
import torch
from transformers import AutoModelForMaskedLM

from tests.models.tiny import FAMILIES, save_checkpoint, tiny_config, tiny_tokenizer
from tune_tickets.config.task import Model
from tune_tickets.errors import ResourceError, StoreError
from tune_tickets.models.families import family_of
from tune_tickets.models.masked_lm import (
    load_masked_lm_backbone,
    masked_lm_files,
    masked_lm_from_files,
    open_masked_lm,
)

IDS = {"input_ids": torch.tensor([[0, 4, 6, 2], [0, 5, 7, 2]])}


def save_masked_lm(family, folder):
    """A checkpoint with a trained masked-LM head."""
    folder.mkdir()
    torch.manual_seed(1)
    model = AutoModelForMaskedLM.from_config(tiny_config(family)).eval()
    family_of(model).decoder_bias(model).data.normal_()
    model.save_pretrained(folder)
    tiny_tokenizer(family, folder).save_pretrained(folder)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_head_is_tied_to_the_embeddings_of_the_checkpoint_and_depends_on_the_seed_alone(family, tmp_path):
    encoder = save_checkpoint(family, tmp_path / "b").base_model
    source = Model(source=str(tmp_path / "b"))
    one, same, other = (load_masked_lm_backbone(source, seed) for seed in (0, 0, 1))
    assert not one.has_head
    embeddings = one.model.get_input_embeddings().weight
    assert one.model.get_output_embeddings().weight is embeddings
    assert torch.equal(embeddings, encoder.get_input_embeddings().weight)
    assert torch.count_nonzero(family_of(one.model).decoder_bias(one.model)) == 0
    states = [found.model.state_dict() for found in (one, same, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    changed = {name for name in states[0] if not torch.equal(states[0][name], states[2][name])}
    [dense] = changed  # the transform: the one new matrix
    assert dense in ("cls.predictions.transform.dense.weight", "lm_head.dense.weight")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_with_a_head_is_used_as_it_is_unless_layers_are_cut(family, tmp_path):
    saved = save_masked_lm(family, tmp_path / "mlm")
    whole = load_masked_lm_backbone(Model(source=str(tmp_path / "mlm")), seed=0)
    assert whole.has_head
    with torch.inference_mode():
        torch.testing.assert_close(whole.model.eval()(**IDS).logits, saved(**IDS).logits)
    cut = load_masked_lm_backbone(Model(source=str(tmp_path / "mlm"), layers=1), seed=0)
    assert not cut.has_head
    assert load_masked_lm_backbone(Model(source=str(tmp_path / "mlm"), layers=2), seed=0).has_head


@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_gives_the_scores_that_the_whole_model_gives(family, tmp_path):
    model = save_masked_lm(family, tmp_path / "mlm")
    with torch.inference_mode():
        hidden = model.base_model(**IDS).last_hidden_state
        torch.testing.assert_close(family_of(model).masked_lm_head(model)(hidden), model(**IDS).logits)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_files_are_a_transformers_folder_and_come_back_as_the_same_model(family, tmp_path):
    save_checkpoint(family, tmp_path / "b")
    fitted = load_masked_lm_backbone(Model(source=str(tmp_path / "b")), seed=0)
    family_of(fitted.model).decoder_bias(fitted.model).data.normal_()
    files = masked_lm_files(fitted.model.eval(), fitted.tokenizer)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(files)
    model, tokenizer = masked_lm_from_files(files, "here")
    assert not model.training
    with torch.inference_mode():
        assert torch.equal(model(**IDS).logits, fitted.model(**IDS).logits)
    assert tokenizer.get_vocab() == fitted.tokenizer.get_vocab()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    plain = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    with torch.inference_mode():
        assert torch.equal(plain(**IDS).logits, model(**IDS).logits)


def test_an_encoder_without_a_head_is_not_taken_for_a_masked_language_model(tmp_path):
    save_checkpoint("bert", tmp_path / "b")
    with pytest.raises(ResourceError, match="has no masked-LM head"):
        open_masked_lm(tmp_path / "b", "TUNE_TICKETS_MASKED_LM")


def test_files_that_would_leave_the_folder_are_refused(tmp_path):
    with pytest.raises(StoreError, match="unexpected name"):
        masked_lm_from_files({"../config.json": b"{}"}, "here")


def test_a_tokenizer_without_a_mask_is_refused(tmp_path):
    save_checkpoint("bert", tmp_path / "b")
    tokenizer = tiny_tokenizer("bert", tmp_path / "b")
    tokenizer._special_tokens_map["mask_token"] = None
    tokenizer.save_pretrained(tmp_path / "b")
    with pytest.raises(ResourceError, match="no mask token"):
        load_masked_lm_backbone(Model(source=str(tmp_path / "b")), seed=0)
