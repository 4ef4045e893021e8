"""The one training: steps, intervals, checkpoints, cost. A method declares what is special about its own in a subclass.

A step depends on the weights, the optimizer and (seed, step) only. So a training that is stopped after any step and
resumed from a checkpoint ends with the same bits as one that was never stopped.
"""

import io
import json
import pickle
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tune_tickets.config.training import Adversary
from tune_tickets.errors import StoreError
from tune_tickets.models.seeding import derived_seed
from tune_tickets.training.adversary import adversary_of
from tune_tickets.training.batches import Batches
from tune_tickets.training.losses import Loss
from tune_tickets.training.schedule import linear_factor, mini_epoch_steps, set_learning_rates, total_steps

Record = dict[str, Any]
"""One entry of a metric history: numbers by name."""
_STATE_FILE, _HISTORY_FILE = "state.pt", "history.json"
_FORMAT = 2
"""Raised when the content of checkpoints changes. Checkpoints of another format are discarded."""


class Part(Protocol):
    """Something that changes during training and can be put into a checkpoint: a module, an optimizer, a memory."""

    def state_dict(self) -> dict[str, Any]:
        """Return all of its numbers and tensors."""
        ...

    def load_state_dict(self, state: Any, /) -> Any:  # noqa: ANN401 - as torch declares it
        """Go back to a state."""
        ...


class Session(Protocol):
    """What a trainer needs from the stage that it runs in. `engine.execution.StageContext` provides it."""

    @property
    def files(self) -> dict[str, str]:
        """The result files written so far, by name, with their places."""
        ...

    def report(self, record: Record) -> None:
        """Add a record to the history of the stage."""
        ...

    def progress(self, done: int, total: int) -> None:
        """Note how many steps are done."""
        ...

    def keep(self, step: int, mini_epoch: int, state: Callable[[], Mapping[str, Any]]) -> None:
        """Write a checkpoint if it is time for one. At most one mini-epoch may be lost."""
        ...

    def keep_now(self, step: int, mini_epoch: int, state: Callable[[], Mapping[str, Any]]) -> None:
        """Write a checkpoint before anything else happens."""
        ...

    def load_checkpoint(self) -> dict[str, bytes] | None:
        """Return the files of the last checkpoint, or None."""
        ...

    def adopt(self, files: dict[str, str]) -> bool:
        """Reuse result files of an earlier attempt. False if one of them is gone."""
        ...


class _Lengths(Protocol):
    """The settings of a schedule, as every section about training has them."""

    @property
    def epochs(self) -> float: ...

    @property
    def warmup(self) -> float: ...

    @property
    def clip(self) -> float: ...


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training, except the state that it starts from."""

    batches: Batches
    loss: Loss
    adversary: Adversary
    total_steps: int
    warmup: float
    clip: float
    seed: int
    penalty: Callable[[], Tensor] | None = None
    """Added to the loss once per optimizer step, not once per adversarial pass (EarlyRobust eq. 7)."""

    @classmethod
    def of(
        cls,
        settings: _Lengths,
        batches: Batches,
        loss: Loss,
        seed: int,
        adversary: Adversary | None = None,
        penalty: Callable[[], Tensor] | None = None,
    ) -> "Recipe":
        """The recipe of a section with `epochs`, `warmup` and `clip`; without an adversary unless one is given."""
        total = total_steps(batches.steps_per_epoch, settings.epochs)
        adversary = adversary or Adversary(kind="none")
        return cls(batches, loss, adversary, total, settings.warmup, settings.clip, seed, penalty)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds: the state of the training, which is large, and everything else, which is small."""

    history: Sequence[Record]
    state: Any = None
    """Bytes when it is loaded, the parts themselves when it is written. None after cleaning or after the last step."""
    parts: Sequence[str] = ()
    """The names of all parts in the state."""
    kept: dict[str, str] = field(default_factory=dict)
    """The result files written so far."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Small files of the method."""

    @classmethod
    def load(cls, session: Session) -> "Checkpoint | None":
        """The checkpoint of a stage; None if there is none or if it has another format."""
        files = dict(session.load_checkpoint() or {})
        story = json.loads(files.pop(_HISTORY_FILE, b"{}"))
        if not isinstance(story, dict) or story.get("format") != _FORMAT:
            return None
        return cls(story["history"], files.pop(_STATE_FILE, None), story["parts"], story["kept"], files)

    def to_files(self) -> dict[str, Any]:
        """The content of its files by name."""
        story = {"format": _FORMAT, "history": self.history, "parts": self.parts, "kept": self.kept}
        state = {} if self.state is None else {_STATE_FILE: self.state}
        return {_HISTORY_FILE: json.dumps(story).encode(), **state, **self.files}


class Trainer:
    """A training that can be stopped after any step and resumed.

    Subclasses override the methods below `run` where they differ: what changes during training, what acts on the
    model, what is recorded at the end of an interval, and when to stop early.

    Example:
        trainer = Trainer(model, optimizer, recipe, ends=range(100, recipe.total_steps + 1, 100))
        trainer.run(context)
    """

    waits_for_records: ClassVar[bool] = False
    """True if a record is expensive: a checkpoint is then written before the training continues."""
    session: Session
    """Set by `run`."""

    def __init__(
        self,
        model: PreTrainedModel,
        optimizer: torch.optim.Optimizer,
        recipe: Recipe,
        *,
        ends: Sequence[int] = (),
        first: int = 0,
        last: int | None = None,
        mini_epoch: int | None = None,
    ) -> None:
        """Prepare a training at its first step.

        Args:
            model: the model in training.
            optimizer: as `schedule.build_optimizer` builds it.
            recipe: data, loss, adversary and schedule.
            ends: the numbers of the steps, from 1, after which an interval ends. They ascend.
            first: how many steps of the schedule are skipped at the start.
            last: the step after which the training ends; None for the end of the schedule.
            mini_epoch: how many steps a kill may cost; None for the usual share of an epoch.
        """
        self.model, self.optimizer, self.recipe = model, optimizer, recipe
        self.adversary = adversary_of(recipe.adversary, recipe.batches.texts)
        self.ends, self.last = ends, recipe.total_steps if last is None else last
        self.mini_epoch = mini_epoch or mini_epoch_steps(recipe.batches.steps_per_epoch)
        self.step = self._first = first
        self.row_passes: float = 0
        """Cost on any machine: rows that went forward and backward, counted once per adversarial pass. See `passes`."""
        self.seconds = 0.0
        """Cost on this machine: time spent in training steps."""
        self.history: list[Record] = []
        self.replayed = 0
        """How many records of the history come from the checkpoint."""
        self._losses = torch.zeros(())
        """The sum of the losses since the last interval ended."""

    def run(self, session: Session, checkpoint: Checkpoint | None = None) -> None:
        """Resume from a checkpoint and train to the last step, or until it is enough.

        Without a usable checkpoint the training starts at its first step. A checkpoint is not usable if it has other
        parts, if its state was cleaned, or if result files are gone that were written before it.

        Args:
            session: the stage that the training runs in.
            checkpoint: the checkpoint of the session, if it is loaded already.

        Raises:
            StoreError: the state cannot be read or belongs to another model.
        """
        self.session = session
        self._resume(checkpoint or Checkpoint.load(session))
        with self.attached():
            for step, _ in self.steps():
                session.progress(step, self.last)
                self.after_step()
                ended = self._end_interval()
                if self.enough():
                    return
                if step < self.last:
                    keep = session.keep_now if ended and self.waits_for_records else session.keep
                    keep(step, self.mini_epoch, self.checkpoint)

    def steps(self) -> Iterator[tuple[int, Tensor]]:
        """Train without intervals and checkpoints. Yields (steps done, detached loss) after each step."""
        recipe, optimizer = self.recipe, self.optimizer
        while self.step < self.last:
            self.before_step()
            started = time.perf_counter()
            batch = recipe.batches[self.step]
            self.model.train(True)
            set_learning_rates(optimizer, linear_factor(self.step, recipe.total_steps, recipe.warmup))
            noise = torch.Generator().manual_seed(derived_seed(recipe.seed, "noise", self.step))
            with _seeded(derived_seed(recipe.seed, "dropout", self.step), batch["input_ids"].device):
                loss = self.adversary.backward(self.model, batch, recipe.loss, noise)
            if recipe.penalty is not None:
                torch.autograd.backward(recipe.penalty())
            torch.nn.utils.clip_grad_norm_(
                [p for group in optimizer.param_groups for p in group["params"]], recipe.clip
            )
            optimizer.step()
            optimizer.zero_grad()
            self._losses = self._losses + loss
            self.step += 1
            self.row_passes += self.adversary.passes * len(batch["labels"])
            self.seconds += time.perf_counter() - started
            yield self.step, loss

    def report(self, record: Record) -> None:
        """Add a record to the history."""
        self.history.append(record)
        self.session.report(self.shown(record))

    def cost(self) -> dict[str, float]:
        """The entry `training` in the record of a stage."""
        return training_cost(self.row_passes, self.seconds, self.recipe.batches.row_count)

    def checkpoint(self) -> dict[str, Any]:
        """The files of a checkpoint. Their tensors are those in use: they change with the next step."""
        state = self.state() if self.step < self.last else None  # a finished training cannot continue
        names, kept = sorted(self._all_parts()), self.session.files
        return Checkpoint(self.history, state, names, kept, self.files()).to_files()

    def state(self) -> dict[str, Any]:
        """The state of the training: its parts, and how far it is."""
        return {
            "step": self.step,
            "row_passes": self.row_passes,
            "seconds": self.seconds,
            "losses": self._losses,
            "parts": {name: part.state_dict() for name, part in self._all_parts().items()},
        }

    # --- what subclasses declare ---

    def parts(self) -> Mapping[str, Part]:
        """What changes during training, by name. The optimizer and the adversary are added to it."""
        return {"model": self.model}

    def files(self) -> dict[str, bytes]:
        """Further small files of a checkpoint; `restore` reads them."""
        return {}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Load the state of a checkpoint. After an error, the training must be built again."""
        device = next(self.model.parameters()).device
        try:
            # weights_only: a checkpoint can hold numbers, never code.
            state = torch.load(io.BytesIO(checkpoint.state), map_location=device, weights_only=True)
            for name, part in self._all_parts().items():
                part.load_state_dict(state["parts"][name])
            self.step, self.row_passes = int(state["step"]), state["row_passes"] + 0
            self.seconds, self._losses = float(state["seconds"]), state["losses"]
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, EOFError, pickle.PickleError) as error:
            raise StoreError(
                f"the checkpoint of a training cannot be read or belongs to another model ({error}). "
                "Delete it: the training then starts again from its first step"
            ) from error
        self.history = list(checkpoint.history)

    def attached(self) -> AbstractContextManager[object]:
        """What acts on the model during training, such as gates."""
        return nullcontext()

    def before_step(self) -> None:
        """Prepare a step."""

    def after_step(self) -> None:
        """Look at the model between the records of intervals."""

    def record(self, number: int, loss: float) -> Record:
        """The record of an interval, counted from 1, with its mean loss."""
        return {"step": number, "loss": loss}

    def shown(self, record: Record) -> Record:
        """What trials see of a record."""
        return record

    def enough(self) -> bool:
        """Whether to stop after this step."""
        return False

    # --- inside ---

    def _resume(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is None or checkpoint.state is None or list(checkpoint.parts) != sorted(self._all_parts()):
            return
        if self.session.adopt(checkpoint.kept):
            self.restore(checkpoint)
            self.replayed = len(self.history)
            for record in self.history:
                self.session.report(self.shown(record))

    def _end_interval(self) -> bool:
        number = bisect_left(self.ends, self.step)
        if number == len(self.ends) or self.ends[number] != self.step:
            return False
        steps = self.step - (self.ends[number - 1] if number else self._first)
        self.report(self.record(number + 1, float(self._losses) / steps))
        self._losses = torch.zeros_like(self._losses)
        return True

    def _all_parts(self) -> dict[str, Part]:
        own = {f"adversary.{name}": part for name, part in self.adversary.parts().items()}
        return {"optimizer": self.optimizer, **self.parts(), **own}


def training_cost(row_passes: float, seconds: float, rows: int) -> dict[str, float]:
    """The cost of a training: passes over all training rows, and seconds."""
    return {"passes": row_passes / rows, "seconds": seconds}


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Own global random numbers for dropout. Those of the caller are restored."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
