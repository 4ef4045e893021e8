"""The ticket in MLflow's model registry: one version per ticket, the alias `best`, loadable with `mlflow.pyfunc`."""

import hashlib
import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import LoggedModel, LoggedModelStatus
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, DataType, Schema

from tune_tickets import __version__
from tune_tickets.tracking.naming import TAG_LENGTH, shorten


@dataclass(frozen=True)
class Winner:
    """A ticket to register."""

    path: Path
    columns: tuple[str, ...]
    """The text columns it reads."""
    run_id: str
    description: str
    tags: Mapping[str, str]
    is_best: bool = True
    """Whether it gets the alias."""


def model_name(experiment: str) -> str:
    """Return a valid name for the registry: no slash, colon or quote."""
    return re.sub(r"[^\w .-]", "_", experiment).strip() or "_"


ALIAS = "best"
DIGEST = "tickets.sha256"
CODE = Path(__file__).with_name("ticket_model.py")
REQUIREMENTS = (f"tune_tickets=={__version__}",)


class Registry:
    """Registers tickets through an explicit client. The same ticket is never registered twice."""

    def __init__(self, client: MlflowClient, experiment_id: str) -> None:
        self._client, self._experiment_id = client, experiment_id

    def register(self, name: str, winner: Winner) -> str:
        """Add the ticket as a version of the model `name`, unless it is one already, and point `best` to the best."""
        digest = hashlib.sha256(winner.path.read_bytes()).hexdigest()
        found = self._version(name, digest)
        version = found or self._create(name, winner, digest)
        for key, value in winner.tags.items():
            self._client.set_model_version_tag(name, version.version, key, shorten(value, TAG_LENGTH))
        if winner.is_best:
            self._client.set_registered_model_alias(name, ALIAS, version.version)
        elif str(self._client.get_registered_model(name).aliases.get(ALIAS)) == str(version.version):
            self._client.delete_registered_model_alias(name, ALIAS)  # an earlier session of the search gave it
        return str(version.version)

    def _version(self, name: str, digest: str) -> ModelVersion | None:
        known = self._client.search_model_versions(f"name = '{name}'")
        return next((version for version in known if version.tags.get(DIGEST) == digest), None)

    def _create(self, name: str, winner: Winner, digest: str) -> ModelVersion:
        try:
            self._client.get_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            self._client.create_registered_model(name, description="Tickets of searches for robust lottery tickets.")
        model = self._logged_model(winner, digest)
        return self._client.create_model_version(
            name,
            # Not models:/<id>, which a local registry would look up in the global tracking store.
            source=model.artifact_location,
            run_id=winner.run_id,
            model_id=model.model_id,
            tags={DIGEST: digest},
            description=winner.description,
        )

    def _logged_model(self, winner: Winner, digest: str) -> LoggedModel:
        """Return the ticket as a logged model. One that an earlier attempt has completed is reused."""
        known = self._client.search_logged_models([self._experiment_id], filter_string=f"tags.`{DIGEST}` = '{digest}'")
        ready = [model for model in known if model.status == LoggedModelStatus.READY]
        if ready:
            return ready[0]
        model = self._client.create_logged_model(
            self._experiment_id, name="ticket", source_run_id=winner.run_id, tags={DIGEST: digest}, model_type="ticket"
        )
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            save_model(folder, winner.path, winner.columns, model_id=model.model_id)
            self._client.log_model_artifacts(model.model_id, str(folder))
        return self._client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)


def save_model(folder: Path, ticket: Path, columns: Sequence[str], **identity: Any) -> None:  # noqa: ANN401 - of Model
    """Write the folder that `mlflow.pyfunc` loads: code, safetensors and a signature, no pickle."""
    import mlflow.pyfunc

    answers = Schema([ColSpec(DataType.string, "label"), ColSpec(DataType.double, "probability")])
    texts = Schema([ColSpec(DataType.string, column) for column in columns])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for an example although there is a signature
        mlflow.pyfunc.save_model(
            str(folder),
            mlflow_model=Model(**identity),
            python_model=str(CODE),
            artifacts={"ticket": ticket.resolve().as_uri()},
            signature=ModelSignature(inputs=texts, outputs=answers),
            pip_requirements=list(REQUIREMENTS),
        )
