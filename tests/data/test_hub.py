"""The real `datasets` library reads a folder with the layout of a hub data set. The hub itself is not used."""

from pathlib import Path

import pytest

from tune_tickets.config.task import Rows, Task
from tune_tickets.data.files import read_hub
from tune_tickets.data.task import load_task
from tune_tickets.errors import DataError, ResourceError

CARD = """\
---
configs:
- config_name: films
  data_files:
  - split: train
    path: train.csv
  - split: validation
    path: validation.csv
dataset_info:
- config_name: films
  features:
  - name: text
    dtype: string
  - name: label
    dtype:
      class_label:
        names:
          '0': pos
          '1': neg
---
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """30 training rows, the last without text and the one before it without label, and 20 validation rows."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "films"
    folder.mkdir()
    (folder / "README.md").write_text(CARD)
    train = [f"film {i},{i % 2}" for i in range(28)] + ["film without label,-1", '"",1']
    (folder / "train.csv").write_text("text,label\n" + "\n".join(train) + "\n")
    held = [f"other film {i},{i % 2}" for i in range(18)] + ["film 0,0", "FILM  3,1"]
    (folder / "validation.csv").write_text("text,label\n" + "\n".join(held) + "\n")
    return str(folder)


def test_class_names_of_the_data_set_give_the_class_order(repository):
    table = read_hub(repository, "films", "train")
    assert table.class_names == {"label": ("pos", "neg")}
    assert len(table) == 30
    assert list(table.column("label"))[:3] == [0, 1, 0]


def test_splits_of_the_data_set_become_train_and_held_out_rows(repository):
    task = Task(source=repository, subset="films", held_out="validation", rows=Rows(select=6, report=8))
    data = load_task(task, seed=0)
    assert data.labels == ("pos", "neg")
    assert all("other" in row.texts[0] or row.texts[0] in ("film 0", "FILM  3") for row in (*data.select, *data.report))
    # 28 labelled rows with a text, less 'film 0' and 'film 3', which are held out.
    assert {row.texts[0] for row in data.train} == {f"film {i}" for i in range(28)} - {"film 0", "film 3"}
    assert all(row.label == int(row.texts[0].split()[1]) % 2 for row in data.train)
    assert (data.dropped.empty, data.dropped.held_out) == (2, 2)


def test_a_local_file_can_be_held_out_of_a_hub_data_set(repository, tmp_path):
    (tmp_path / "mine.csv").write_text(
        "text,label\n" + "".join(f"mine {i},{('pos', 'neg')[i % 2]}\n" for i in range(8))
    )
    task = Task(source=repository, subset="films", held_out=str(tmp_path / "mine.csv"), rows=Rows(select=2, report=2))
    assert all(row.texts[0].startswith("mine") for row in load_task(task, seed=0).select)


@pytest.mark.parametrize(
    ("subset", "split", "message"),
    [
        ("films", "test", r"split 'test'.*\['train', 'validation'\]"),
        ("books", "train", r"\(books\).*Available: \['films'\]"),
    ],
)
def test_unknown_split_or_subset_lists_those_there_are(repository, subset, split, message):
    with pytest.raises(DataError, match=message):
        read_hub(repository, subset, split)


def test_a_data_set_that_does_not_fit_its_own_card_is_a_data_error(repository):
    Path(repository, "train.csv").write_text("text,label\na,0\nb,7\n")
    with pytest.raises(DataError, match=r"Class label 7 greater than configured num_classes 2"):
        read_hub(repository, "films", "train")


def test_an_empty_folder_is_no_data_set(repository, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResourceError, match="doesn't contain any data files"):
        read_hub(str(tmp_path / "empty"), None, "train")


def test_out_of_reach_of_the_hub_the_error_says_what_to_do(repository, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ResourceError, match=r"'glue' is neither a local file nor.*name the local file in task\.source"):
        load_task(Task(source="glue", subset="sst2", text="sentence"), seed=0)
