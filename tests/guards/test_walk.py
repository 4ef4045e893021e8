"""From a trial to its loss it is a short walk: a reader follows it frame by frame."""

import sys
import traceback
from pathlib import Path

import pytest
from torch.nn import functional

import tune_tickets

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "scripts"))
from studies import bits

MOST = 12
"""From `run_trial` to the loss, both included. CONTRIBUTING lists them."""
LOSSES = "training/losses.py"
PACKAGE = Path(tune_tickets.__file__).parent


@pytest.fixture
def frames(tmp_path, monkeypatch):
    """The frames of our code, from `Flow.find_ticket` to the call of the cross entropy of the first training step."""
    seen: list[list[str]] = []
    cross_entropy = functional.cross_entropy

    def watched(*arguments, **options):
        seen.append(
            [
                f"{Path(frame.filename).relative_to(PACKAGE)}:{frame.name}"
                for frame in traceback.extract_stack()
                if Path(frame.filename).is_relative_to(PACKAGE)
            ]
        )
        return cross_entropy(*arguments, **options)

    monkeypatch.setattr(functional, "cross_entropy", watched)
    small = ("retraining.epochs=1", "task.rows={train: 16, select: 8, report: 8}", "evaluation.rows=1")
    monkeypatch.setitem(bits.METHODS, "small", ("method={kind: finetune}", *small))
    bits.bits(bits.prepare(tmp_path / "tiny"), "small", tmp_path / "store")
    return seen[0]


def test_from_a_trial_to_its_loss_there_are_few_frames(frames):
    # `run_trial` stands above `find_ticket` in a search.
    walk = ["search/trainable.py:run_trial", *frames]
    assert walk[1] == "methods/base.py:find_ticket"
    to_the_loss = next(place for place, frame in enumerate(walk, start=1) if frame.startswith(LOSSES))
    assert to_the_loss <= MOST, "\n".join(walk)
