"""The report at the end of a search: written, or a message says why not."""

from tests.reports.page.conftest import many, results  # noqa: F401 - a fixture
from tune_tickets.reports.gallery import leave_report


def test_both_files_are_left_and_named(results):  # noqa: F811
    folder = results(many(2))
    left = leave_report(folder)
    assert set(left.files) == {"report.html", "report.md"}
    assert all(path.is_file() for path in left.files.values())
    assert left.problems == ()
    assert not list(folder.glob(".*"))


def test_trouble_with_the_page_does_not_lose_the_search(results):  # noqa: F811
    folder = results(many(2))
    (folder / "report.html").mkdir()
    left = leave_report(folder)
    assert left.files == {}
    (problem,) = left.problems
    assert problem.startswith("The report could not be written (TicketsError: ")
    assert problem.endswith(f"tune-tickets report {folder}")
