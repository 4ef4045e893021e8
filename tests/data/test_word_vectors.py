"""Words, and their vectors from text files."""

import gzip

import numpy as np
import pytest

from tune_tickets.data.bias import read_vectors, words_of
from tune_tickets.errors import DataError, ResourceError

LINES = "4 2\ncat 1 0\nthe 0.5 -0.25\nCat 9 9\ndog 3e0 4 \n"


def test_words_are_lower_case_and_without_punctuation():
    assert words_of("Don't stop: it’s 2 good!") == ["don't", "stop", "it’s", "2", "good"]


@pytest.mark.parametrize("packed", [False, True])
def test_vectors_of_the_wanted_words_plain_or_packed(tmp_path, packed):
    path = tmp_path / ("x.vec.gz" if packed else "x.vec")
    path.write_bytes(gzip.compress(LINES.encode()) if packed else LINES.encode())
    found = read_vectors(str(path), {"dog", "cat", "4", "unseen"})
    assert found.words == ("cat", "dog")
    assert found.matrix.tolist() == [[1.0, 0.0], [3.0, 4.0]]
    assert found.best_cosines(["dog", "unseen"], ["cat", "unseen"]) == pytest.approx(np.array([0.6, 1.0]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cat 1 0\ndog 3\xff 4\n", "not a text file of word vectors"),
        (b"cat 1 x\n", "not a text file of word vectors"),
        (b"cat 1 0\ndog 3 4 5\n", "line 2: 'dog' has a vector of different length"),
        (b"2 2\nmouse 1 0\n", "no vector for any word of the task"),
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path, content, message):
    path = tmp_path / "x.vec"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_vectors(str(path), {"cat", "dog"})


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ResourceError, match=r"missing\.vec"):
        read_vectors(str(tmp_path / "missing.vec"), {"cat"})


def test_a_packed_file_that_was_cut_off_is_named(tmp_path):
    path = tmp_path / "x.vec.gz"
    path.write_bytes(gzip.compress(LINES.encode())[:-12])
    with pytest.raises(ResourceError, match=r"x\.vec\.gz' cannot be read .*that the file is complete"):
        read_vectors(str(path), {"good", "film"})
