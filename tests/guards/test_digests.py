"""No change of the code gives a stage another identity by accident."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from studies import digests  # noqa: E402

GOLDEN = Path(__file__).parent / "digests.json"
ADVICE = (
    "Stages have other digests than before, so stored results are not found. If you changed what a stage computes, "
    "raise its version and refresh this file with "
    "'.venv/bin/python scripts/studies/digests.py --write tests/guards/digests.json'. If not, undo what changed them."
)


def test_stages_of_shipped_files_keep_their_digests():
    """On stubs of rows, models and resources: library versions are part of a threat model, and may differ here."""
    found = digests.golden(line for path in digests.shipped() for line in digests.lines(path, stub=True))
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))
    changed = [
        f"{file}: {stage}"
        for file in sorted(found.keys() | kept.keys())
        for stage in sorted(found.get(file, {}).keys() | kept.get(file, {}).keys())
        if found.get(file, {}).get(stage) != kept.get(file, {}).get(stage)
    ]
    assert not changed, f"{ADVICE}\n" + "\n".join(changed)


def test_the_bundled_rows_keep_their_digest():
    [line] = [
        line
        for line in digests.lines(digests.SHIPPED / "finetune.yaml")
        if (line.walk, line.stage) == ("dense", "retrain")
    ]
    assert line.digest.startswith(DENSE), ADVICE


DENSE = "0fc9384c65b70f38a0158c439d49af2f"
"""The dense control of finetune.yaml on the bundled rows and the bundled encoder."""


def test_a_changed_setting_and_a_raised_version_are_seen(tmp_path, monkeypatch):
    from tune_tickets.methods.stages import Evaluate

    shipped = digests.SHIPPED / "finetune.yaml"
    before = sorted(digests.lines(shipped, stub=True))
    monkeypatch.setattr(Evaluate, "version", Evaluate.version + 1)
    now = sorted(digests.lines(shipped, stub=True))
    told = digests.differences(before, now)
    assert told
    assert all(": evaluate " in line for line in told)
    (tmp_path / "finetune.yaml").write_text(f"{shipped.read_text(encoding='utf-8')}seed: 7\n", encoding="utf-8")
    seeded, plain = (digests.golden(digests.lines(path, stub=True)) for path in (tmp_path / "finetune.yaml", shipped))
    same = {stage for stage, found in seeded["finetune.yaml"].items() if plain["finetune.yaml"][stage] == found}
    assert same == {"draw"}, "a random mask has a seed of its own"
