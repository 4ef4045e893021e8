import pytest

from tests.models.tiny import FAMILIES, tiny_tokenizer
from tune_tickets.errors import ResourceError, StoreError
from tune_tickets.models.tokenizer import framing_tokens, tokenizer_files, tokenizer_from_files

TEXT = "the film was good, but a bit dull"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tokenizer_survives_the_way_through_files(family, tmp_path):
    tokenizer = tiny_tokenizer(family, tmp_path)
    again = tokenizer_from_files(tokenizer_files(tokenizer), "here")
    assert again(TEXT, "a plot", truncation=True, max_length=8) == tokenizer(
        TEXT, "a plot", truncation=True, max_length=8
    )
    assert again.pad_token_id == tokenizer.pad_token_id


@pytest.mark.parametrize("family", FAMILIES)
def test_the_files_do_not_depend_on_earlier_calls(family, tmp_path):
    tokenizer = tiny_tokenizer(family, tmp_path)
    before = tokenizer_files(tokenizer)
    tokenizer([TEXT, "good"], truncation=True, max_length=5, padding="max_length")
    assert tokenizer_files(tokenizer) == before


def test_the_files_do_not_tell_where_they_came_from(tmp_path):
    files = tokenizer_files(tiny_tokenizer("bert", tmp_path))
    assert all(str(tmp_path).encode() not in content for content in files.values())


def test_a_file_name_cannot_lead_out_of_the_folder():
    with pytest.raises(StoreError, match="unexpected name"):
        tokenizer_from_files({"../evil": b""}, "here")


def test_a_damaged_tokenizer_is_named():
    with pytest.raises(ResourceError, match=r"my\.ticket: its tokenizer cannot be read"):
        tokenizer_from_files({"tokenizer.json": b"{", "tokenizer_config.json": b"{}"}, "my.ticket")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_frame_of_a_pair_is_told_from_its_words(family, tmp_path):
    tokenizer = tiny_tokenizer(family, tmp_path)
    encoded = tokenizer("a film", "zzz plot", padding="max_length", max_length=30)["input_ids"]
    words = [index for index in encoded if index not in framing_tokens(tokenizer)]
    apart = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a film", "zzz plot")]
    assert words == apart[0] + apart[1]
