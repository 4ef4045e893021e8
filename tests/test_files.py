"""The atomic write: the old content or the new one, the asked mode, and nothing left behind."""

import os

import pytest

from tune_tickets.files import making, put_in_place, replacing, write_atomic


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("private", "mode"), [(False, 0o644), (True, 0o600)])
def test_a_file_has_the_asked_mode_whatever_the_umask_is(tmp_path, private, mode):
    before = os.umask(0o077)
    try:
        write_atomic(tmp_path / "new" / "file", "ä", private)
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "file").read_bytes() == b"\xc3\xa4"
    assert (tmp_path / "new" / "file").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_stream_that_ends_with_an_error_changes_nothing(tmp_path, error):
    def write(stream) -> None:
        stream.write(b"half")
        assert (tmp_path / "file").read_bytes() == b"old"
        raise error

    write_atomic(tmp_path / "file", b"old")
    with pytest.raises(error), replacing(tmp_path / "file") as stream:
        write(stream)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_folder_appears_whole_with_every_file_on_disk(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_ino), fsync(handle)))
    with making(tmp_path / "folder") as new:
        (new / "below").mkdir(parents=True)
        (new / "below" / "file").write_bytes(b"content")
        assert not (tmp_path / "folder").exists()
    made = [tmp_path, *tmp_path.rglob("*")]
    assert [str(path.relative_to(tmp_path)) for path in made] == [".", "folder", "folder/below", "folder/below/file"]
    assert sorted(synced) == sorted(path.stat().st_ino for path in made)


def test_a_folder_that_fails_or_has_no_place_leaves_no_trace(tmp_path):
    def fill(folder) -> None:
        folder.mkdir()
        (folder / "file").write_bytes(b"half")
        raise KeyboardInterrupt

    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_bytes(b"")
    with pytest.raises(OSError, match="not empty"), making(tmp_path / "folder") as new:
        new.mkdir()
    with pytest.raises(KeyboardInterrupt), making(tmp_path / "other") as new:
        fill(new)
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == ["mine"]


def test_what_was_made_elsewhere_is_moved(tmp_path):
    (tmp_path / "file.part").write_bytes(b"content")
    put_in_place(tmp_path / "file.part", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"content"
    assert names(tmp_path) == ["file"]
