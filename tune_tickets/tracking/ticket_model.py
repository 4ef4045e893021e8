"""A ticket as MLflow loads it: this file is copied beside the weights and run, so that nothing is ever pickled."""

from typing import Any

import pandas
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class TicketModel(PythonModel):
    """A column per text in, a label and its probability out."""

    def load_context(self, context: Any) -> None:  # noqa: ANN401 - MLflow's own
        """Open the ticket among the artifacts."""
        from tune_tickets import load_ticket

        self.ticket = load_ticket(context.artifacts["ticket"])

    def predict(self, context: Any, model_input: pandas.DataFrame, params: Any = None) -> pandas.DataFrame:  # noqa: ANN401
        """One row of `label` and `probability` per row of texts."""
        columns = list(self.ticket.metadata.text_columns)
        rows: list[Any] = list(model_input[columns].itertuples(index=False, name=None))
        return pandas.DataFrame(self.ticket.predict(rows), columns=["label", "probability"])


set_model(TicketModel())
