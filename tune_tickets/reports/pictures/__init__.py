"""The papers' figures for a search of one's own: drawn once, shown in the results folder, MLflow and the report."""

from tune_tickets.reports.pictures.evidence import Evidence
from tune_tickets.reports.pictures.style import Gallery, Picture, save_pictures

__all__ = ["Evidence", "Gallery", "Picture", "draw", "draw_gallery", "save_pictures"]


def draw(evidence: Evidence) -> tuple[Picture, ...]:
    """Every picture for which there are data, the most telling first."""
    return draw_gallery(evidence).pictures


def draw_gallery(evidence: Evidence) -> Gallery:
    """The same, and why the others were left out."""
    from tune_tickets.reports.pictures.drawing import draw_all  # imports matplotlib, which takes a second

    return draw_all(evidence)
