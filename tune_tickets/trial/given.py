"""A mask that was not drawn here, in the store as if it had been: the stages of every worker can read it there."""

from tune_tickets.engine.quarantine import whole
from tune_tickets.engine.stage import Stage, StageKey
from tune_tickets.engine.store import Store
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.trial.bodies.draw import MASK_FILE, Mask


def mask_key(mask: Mask) -> StageKey:
    """Where a given mask lies, and its bits as its identity."""
    return StageKey("draw", _stage(mask).digest, mask.digest())


def keep_mask(store: Store, mask: Mask) -> None:
    """Put a given mask into the store, unless it is there."""
    stage = _stage(mask)
    if whole(store, stage):
        return
    attempt = store.begin(stage)
    attempt.put(MASK_FILE, mask.to_bytes())
    attempt.finish({"structured": isinstance(mask, StructuredMask)}, seconds=0.0, content=mask.digest())


def _stage(mask: Mask) -> Stage:
    return Stage("draw", {"kind": "given", "mask": mask.digest()})
