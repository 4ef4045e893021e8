"""`--offline` and its variable: no command uses the network, nor do the libraries of the hub."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import socket, sys

def refuse(*arguments, **options):
    raise AssertionError("a connection was tried")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse

from tune_tickets.cli.app import main
main(sys.argv[1:])
"""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("verb", "options", "variables", "tried"),
    [
        ("validate", [], {}, True),
        ("validate", [], {"TUNE_TICKETS_OFFLINE": "1"}, False),
        ("run", ["--offline"], {}, False),
    ],
    ids=["online", "variable", "option"],
)
def test_a_verb_that_lacks_its_model_asks_the_hub_only_where_it_may(
    tiny_yaml, tmp_path, verb, options, variables, tried
):
    hub = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "TUNE_TICKETS_OFFLINE")
    environment = {name: value for name, value in os.environ.items() if name not in hub}
    environment |= {"HF_HOME": str(tmp_path / "hub"), **variables}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, verb, str(tiny_yaml), "model.source=nobody/nothing", *options],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ("a connection was tried" in ended.stderr) is tried
    if not tried:
        assert ended.returncode == (2 if verb == "run" else 0), "what validate could not see, it says"
        assert "nobody/nothing" in ended.stderr + ended.stdout
