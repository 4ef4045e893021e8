"""Three lines of Python for every format; they run as they stand in the folder of the export."""

from collections.abc import Sequence

TEXT = "a gripping, beautifully acted film"
SECOND = "the film is good"

PRUNED = """\
from tune_tickets import load_ticket
ticket = load_ticket(".")
print(ticket.predict([{row}]))
"""
TRANSFORMERS = """\
from transformers import pipeline
classifier = pipeline("text-classification", model=".")
print(classifier({row}, truncation=True))
"""
ONNX = """\
import onnxruntime, transformers
inputs = transformers.AutoTokenizer.from_pretrained(".")({row}, truncation=True, return_tensors="np")
print(onnxruntime.InferenceSession("model.onnx").run(["logits"], dict(inputs)))
"""


def example(form: str, columns: Sequence[str]) -> str:
    """The code for 'hf', 'pruned' or 'onnx', for a text or a pair of texts."""
    pair = len(columns) == 2
    if form == "hf":
        row = f'{{"text": "{TEXT}", "text_pair": "{SECOND}"}}' if pair else f'"{TEXT}"'
        return TRANSFORMERS.format(row=row)
    if form == "onnx":
        return ONNX.format(row=f'["{TEXT}"], ["{SECOND}"]' if pair else f'["{TEXT}"]')
    return PRUNED.format(row=f'("{TEXT}", "{SECOND}")' if pair else f'"{TEXT}"')
