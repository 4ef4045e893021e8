import logging
import multiprocessing

from tune_tickets.attacks import lockstep as memory_module
from tune_tickets.attacks.lockstep import Memory


class Lengths:
    """Answers with the length of the question, and counts."""

    def __init__(self, questions):
        self.questions, self.computed = questions, []

    def __call__(self, places):
        self.computed += [self.questions[place] for place in places]
        return [str(sum(map(len, self.questions[place]))) for place in places]


def ask(memory, questions):
    compute = Lengths(questions)
    return memory.answers(questions, compute), compute.computed


def test_a_question_is_computed_once_however_often_it_is_asked(tmp_path):
    memory = Memory(tmp_path / "memory.sqlite")
    assert ask(memory, [("a", "bb"), ("c",), ("a", "bb")]) == (["3", "1", "3"], [("a", "bb"), ("c",)])
    assert ask(memory, [("c",), ("dddd",)]) == (["1", "4"], [("dddd",)])


def test_the_parts_of_a_question_do_not_run_together(tmp_path):
    _, computed = ask(Memory(tmp_path / "memory.sqlite"), [("ab", "c"), ("a", "bc"), ("abc",), ("a\0b", "c")])
    assert len(computed) == 4


def test_another_process_finds_what_one_has_computed(tmp_path):
    path = tmp_path / "memory.sqlite"
    questions = [(f"text {number}",) for number in range(1200)]
    answers, _ = ask(Memory(path), questions)
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        again, computed = pool.apply(_ask_elsewhere, (str(path), [*questions, ("new",)]))
    assert again == [*answers, "3"]
    assert computed == [("new",)]


def _ask_elsewhere(path, questions):
    from pathlib import Path

    return ask(Memory(Path(path)), questions)


def test_a_damaged_file_costs_time_and_nothing_else(tmp_path, caplog):
    path = tmp_path / "memory.sqlite"
    path.write_bytes(b"this is no database" * 100)
    with caplog.at_level(logging.WARNING):
        memory = Memory(path)
        assert ask(memory, [("a",)]) == (["1"], [("a",)])
        assert ask(memory, [("a",)]) == (["1"], [])
    assert "without a memory on disk" in caplog.text


def test_a_folder_that_cannot_be_made_costs_time_and_nothing_else(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        assert ask(Memory(tmp_path / "file" / "memory.sqlite"), [("a",)]) == (["1"], [("a",)])


def test_bytes_are_kept_as_words_are(tmp_path):
    path = tmp_path / "memory.sqlite"
    assert Memory(path).answers([("a",)], lambda places: [b"\x00\xff"]) == [b"\x00\xff"]
    assert Memory(path).answers([("a",)], lambda places: [b"other"]) == [b"\x00\xff"]


def test_what_the_process_forgets_is_read_from_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_module, "_REMEMBERED", 2)
    memory = Memory(tmp_path / "memory.sqlite")
    for number in range(5):
        ask(memory, [(f"text {number}",)])
        assert len(memory._known) <= 2
    assert ask(memory, [("text 0",), ("text 4",)]) == (["6", "6"], [])
