"""`python scripts/studies/digests.py`: the digest of every stage that the first trials and controls of a YAML request.

The real flow is walked on a runner that computes nothing, so that a change of a digest is seen before it costs anyone
a stored result. Bundled rows and models are read. Stubs stand for those on a hub.

    python scripts/studies/digests.py > before.json              # all shipped YAML files
    python scripts/studies/digests.py --against before.json      # exits with 1 and the differences
    python scripts/studies/digests.py --write tests/guards/digests.json
"""

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import typer

from tune_tickets import Experiment, TicketsError
from tune_tickets.attacks.threat import threats_of
from tune_tickets.config import Settings
from tune_tickets.config.domain import Scalar
from tune_tickets.engine.runner import DryRunner, unheard
from tune_tickets.engine.stage import Stage, StageKey
from tune_tickets.engine.store import Store
from tune_tickets.methods.base import Flow, World
from tune_tickets.search.preflight import preflight
from tune_tickets.search.space import reference, sample, warm_starts

SHIPPED = Path(__file__).parent.parent.parent / "search_spaces"
_DRAWN = 6
"""Trials whose parameters are drawn here, in addition to the warm starts."""
_STUB_ANATOMY = {"layers": 12, "heads": 12, "neurons": 3072, "width": 768}


class Line(NamedTuple):
    """One stage that a trial or a control requests."""

    file: str
    walk: str
    number: int
    stage: str
    digest: str


def lines(path: Path, stub: bool = False) -> Iterator[Line]:
    """Walk the trials and controls of a YAML file.

    Args:
        path: the file.
        stub: put stubs in the place of rows, model and resources of attacks, also where they can be read.

    Yields:
        Every stage in the order in which it is requested.
    """
    experiment = Experiment.load(path)
    bundled = experiment.settings.task.source.startswith("bundled/")
    world = _world(experiment) if bundled and not stub else _stub(experiment.settings)
    file = path.relative_to(SHIPPED).as_posix() if path.is_relative_to(SHIPPED) else path.name
    for walk, stages in _walks(experiment, world):
        for number, stage in enumerate(stages):
            yield Line(file, walk, number, stage.name, stage.digest)


def _walks(experiment: Experiment, world: World) -> Iterator[tuple[str, list[Stage]]]:
    for number, point in enumerate(_points(experiment)):
        yield f"trial {number}", _asked(experiment.at(point), world, lambda flow: flow.find_ticket(unheard))
    dense = reference(experiment)
    yield "dense", _asked(dense, world, lambda flow: flow.dense_control(unheard))
    yield "random", _asked(dense, world, _random)
    yield "epochs", _asked(dense, world, _epochs)


def _points(experiment: Experiment) -> Iterator[Mapping[str, Scalar]]:
    """The warm starts, completed where they leave something open, and a few points drawn from all domains."""
    for number, fixed in enumerate([*warm_starts(experiment), *([{}] * _DRAWN)]):
        # Not every combination of values is an experiment: draw until one is.
        for attempt in range(100):
            point = sample(experiment, _Dice(fixed, random.Random(1000 * number + attempt)))
            try:
                experiment.at(point)
            except TicketsError:
                continue
            yield point
            break


class _Dice:
    """Draws the values of one trial, those that are fixed aside."""

    def __init__(self, fixed: Mapping[str, Scalar], dice: random.Random) -> None:
        self._fixed, self._dice = fixed, dice

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """A number between two others."""
        if name in self._fixed:
            return float(self._fixed[name])  # type: ignore[arg-type]
        if step is not None:
            return low + step * self._dice.randint(0, int((high - low) / step + 1e-9))
        return low * (high / low) ** self._dice.random() if log else self._dice.uniform(low, high)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1) -> int:
        """A whole number between two others."""
        return int(self._fixed.get(name, self._dice.randrange(low, high + 1, step)))  # type: ignore[arg-type]

    def suggest_categorical(self, name: str, choices: tuple[Scalar, ...]) -> Scalar:
        """One of a few values."""
        return self._fixed.get(name, self._dice.choice(choices))


def _asked(settings: Settings, world: World, ask: Callable[[Flow], object]) -> list[Stage]:
    runner = DryRunner(None)
    ask(Flow(settings, world, runner))
    return runner.asked


def _random(flow: Flow) -> None:
    like = StageKey("draw", "like", "like")
    flow.random_control(like, 0, unheard, dict.fromkeys(flow.settings.transfer, like))


def _epochs(flow: Flow) -> None:
    """The dense control after every epoch."""
    runner = DryRunner(None)
    outcome = Flow(flow.settings, flow.world, runner).dense_control(unheard)
    trained: Any = next(stage for stage in runner.asked if stage.digest == outcome.retrain_digest)
    flow.after_every_epoch(trained, outcome)


def _world(experiment: Experiment) -> World:
    """What the driver finds out about rows and model."""
    with TemporaryDirectory() as folder:
        return preflight(experiment, Store(folder))


def _stub(settings: Settings) -> World:
    threats = tuple(threats_of(settings.evaluation))

    def key(name: str, of: str = "stub") -> StageKey:
        return StageKey(name, of, of)

    def keys(name: str) -> dict[str, StageKey]:
        return _Keys(lambda of: key(name, of))

    return World(
        data=key("data"),
        model_fingerprint="stub",
        anatomy=_STUB_ANATOMY,
        threats=threats,
        tickets=keys("draw"),
        corpus=key("corpus") if any(threat.fits_masked_lm for threat in threats) else None,
        vectors=keys("vectors"),
        twins={name: key("twin", name) for name in settings.task.twins},
        ood_train=key("ood_train"),
        transfers={name: key("data", name) for name in settings.transfer},
        search_texts=keys("corpus"),
        pooling="mean" if settings.model.source == "bundled" else "first",
        sources={"near50-forms": {"words": "stub"}},
    )


class _Keys(dict[str, StageKey]):
    """A key for every name that is asked for."""

    def __init__(self, make: Callable[[str], StageKey]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> StageKey:
        return self._make(name)


def golden(found: Iterable[Line]) -> dict[str, dict[str, str]]:
    """The lines in short: by file and kind of stage, how many different stages there are and a digest over them."""
    digests: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in found:
        digests[line.file][line.stage].add(line.digest)
    return {
        file: {
            stage: f"{len(each)}:{hashlib.sha256(' '.join(sorted(each)).encode()).hexdigest()[:16]}"
            for stage, each in sorted(kinds.items())
        }
        for file, kinds in sorted(digests.items())
    }


def differences(before: Iterable[Line], now: Iterable[Line]) -> list[str]:
    """Where two outputs differ, in words. Files that only one of them has are named once."""
    old, new = ({line[:3]: line for line in each} for each in (before, now))
    files = [{line.file for line in each.values()} for each in (old, new)]
    found = [f"{file}: only {'before' if file in files[0] else 'now'}" for file in sorted(files[0] ^ files[1])]
    for place in sorted(old.keys() | new.keys()):
        one, other = old.get(place), new.get(place)
        if one != other and place[0] in files[0] & files[1]:
            shown = [f"{line.stage} {line.digest[:12]}" if line else "nothing" for line in (one, other)]
            found.append(f"{place[0]}, {place[1]}, stage {place[2]}: {shown[0]} -> {shown[1]}")
    return found


def shipped() -> list[Path]:
    """All YAML files that we ship."""
    return sorted(SHIPPED.rglob("*.yaml"))


def read(path: Path) -> list[Line]:
    """Read an earlier output."""
    return [Line(**json.loads(row)) for row in path.read_text(encoding="utf-8").splitlines() if row]


def study(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[EXPERIMENT.yaml]...")] = None,
    against: Annotated[Path | None, typer.Option(metavar="FILE", help="Compare with an earlier output")] = None,
    stub: Annotated[bool, typer.Option(help="Stubs of rows and model also where they can be read")] = False,
    write: Annotated[Path | None, typer.Option(metavar="FILE", help="Refresh the digests that the tests check")] = None,
) -> None:
    """Print the digests as JSON lines, or compare them, or write the file that tests/guards checks."""
    paths: Sequence[Path] = [path.resolve() for path in files or []] or shipped()
    found = sorted(line for path in paths for line in lines(path, stub or write is not None))
    if write is not None:
        write.write_text(json.dumps(golden(found), indent=1) + "\n", encoding="utf-8")
    elif against is not None:
        walked = {line.file for line in found}
        before = [line for line in read(against) if line.file in walked or not files]
        changed = differences(before, found)
        for difference in changed:
            typer.echo(difference)
        typer.echo(f"{len(found)} stages, {len(changed)} differences")
        raise typer.Exit(1 if changed else 0)
    else:
        for line in found:
            typer.echo(json.dumps(line._asdict()))


if __name__ == "__main__":
    typer.run(study)
