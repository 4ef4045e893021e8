"""What the runs of a search were fed: rows by digest and threat models by fingerprint. Plain data, no MLflow."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

DIGEST_LENGTH = 36  # MLflow refuses more


@dataclass(frozen=True)
class RowsRecord:
    """Rows that a run reads. Equal digests are equal texts and labels in equal order."""

    name: str
    context: str
    """What they are for: 'train', 'select' or 'ood'."""
    digest: str
    source: str
    rows: int
    columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def profile(self) -> str:
        """Sizes and names, as MLflow keeps them."""
        return json.dumps({"num_rows": self.rows, "columns": list(self.columns), "labels": list(self.labels)})


@dataclass(frozen=True)
class ThreatInput:
    """A threat model that models are measured under."""

    name: str
    fingerprint: str
    resources: Mapping[str, str] = field(default_factory=dict)

    def tags(self) -> dict[str, str]:
        """Name and fingerprint, and what stands behind it."""
        return {
            f"threat.{self.name}": self.fingerprint,
            f"threat.{self.name}.resources": json.dumps(dict(self.resources), sort_keys=True),
        }


@dataclass(frozen=True)
class SearchInputs:
    """All that the runs of one search share."""

    rows: tuple[RowsRecord, ...] = ()
    threats: tuple[ThreatInput, ...] = ()

    def tags(self) -> dict[str, str]:
        """The threat models as tags."""
        return {key: value for threat in self.threats for key, value in threat.tags().items()}
