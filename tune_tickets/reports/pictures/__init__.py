"""The figures of the papers, drawn for a search. Shown in the results folder, in MLflow and in the report."""

from tune_tickets.reports.pictures.evidence import Evidence
from tune_tickets.reports.pictures.style import Gallery, Picture, save_pictures

__all__ = ["Evidence", "Gallery", "Picture", "draw_gallery", "save_pictures"]


def draw_gallery(evidence: Evidence) -> Gallery:
    """Draw every picture for which there are data, the most important first, and say why others are left out."""
    from tune_tickets.reports.pictures.drawing import draw_all  # imports matplotlib, which takes a second

    return draw_all(evidence)
