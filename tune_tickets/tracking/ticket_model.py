"""A ticket as MLflow loads it. MLflow copies this file next to the weights and runs it, so nothing is pickled."""

from typing import Any

import pandas
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class TicketModel(PythonModel):
    """Takes one column per text, and returns a label and its probability."""

    def load_context(self, context: Any) -> None:  # noqa: ANN401 - MLflow's own
        """Load the ticket from the artifacts."""
        from tune_tickets import load_ticket

        self.ticket = load_ticket(context.artifacts["ticket"])

    def predict(self, context: Any, model_input: pandas.DataFrame, params: Any = None) -> pandas.DataFrame:  # noqa: ANN401
        """Return `label` and `probability` for every row of texts."""
        columns = list(self.ticket.metadata.text_columns)
        rows: list[Any] = list(model_input[columns].itertuples(index=False, name=None))
        return pandas.DataFrame(self.ticket.predict(rows), columns=["label", "probability"])


set_model(TicketModel())
