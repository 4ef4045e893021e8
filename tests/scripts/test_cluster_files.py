"""The files in scripts/cluster, checked with Ray's own schema and parsers, and against our documentation."""

import copy
import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray.autoscaler
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.autoscaler._private.util import prepare_config, validate_config
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tune_tickets.cli.app import app
from tune_tickets.config.search import Resources
from tune_tickets.search.session import Room, addable

FOLDER = Path(__file__).parent.parent.parent / "scripts" / "cluster"
CLOUDS = ("aws", "gcp")


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def load(name: str, kind: str = "RayCluster") -> dict[str, Any]:
    """The file, or its only document of a kind where Kubernetes asks for several."""
    documents = json.loads(json.dumps(list(YAML(typ="safe").load_all(text_of(name)))))
    [found] = [document for document in documents if document.get("kind", kind) == kind]
    return found


def prepared(name: str) -> dict[str, Any]:
    """What `ray up` makes of the file before it speaks to the cloud."""
    return prepare_config(copy.deepcopy(load(name)))


@pytest.mark.parametrize("name", CLOUDS)
def test_cloud_files_pass_rays_schema_as_written_and_as_prepared(name):
    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    jsonschema.validate(load(name), schema)
    validate_config(prepared(name))
    wrong = load(name)
    wrong["idle_timeout"] = 5
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


@pytest.mark.parametrize("name", CLOUDS)
def test_gpu_workers_go_from_none_to_some_and_leave_when_idle(name):
    config = prepared(name)
    [worker] = [node for kind, node in config["available_node_types"].items() if kind != "head"]
    assert worker["min_workers"] == 0
    assert worker["max_workers"] == config["max_workers"] > 1
    assert worker["resources"]["GPU"] == 1
    assert config["available_node_types"]["head"]["resources"] == {"CPU": 0}
    assert 0 < config["idle_timeout_minutes"] <= 10
    room = Room(nodes=({"CPU": 0.0},), free={}, addable=addable(config, nodes=1))
    room.check(Resources(cpus=8, gpus=1))
    assert f"needs 1 GPU, 0 free, autoscaler may add {config['max_workers']}" in room.describe(Resources(gpus=1))


def test_workers_are_spot_and_the_head_is_not():
    aws, gcp = (load(name)["available_node_types"] for name in CLOUDS)
    assert aws["gpu"]["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "InstanceMarketOptions" not in aws["head"]["node_config"]
    assert gcp["gpu"]["node_config"]["scheduling"]["provisioningModel"] == "SPOT"
    assert "scheduling" not in gcp["head"]["node_config"]


@pytest.mark.parametrize("name", CLOUDS)
def test_every_ray_command_carries_the_token_and_the_dashboard_stays_on_localhost(name):
    config = prepared(name)
    starts = [*config["head_start_ray_commands"], *config["worker_start_ray_commands"]]
    assert all("RAY_AUTH_MODE=token" in command for command in starts)
    assert config["file_mounts"] == {"~/.ray/auth_token": "~/.ray/auth_token"}
    [head] = [command for command in config["head_start_ray_commands"] if "--head" in command]
    assert "--dashboard-host=127.0.0.1" in head
    assert "--autoscaling-config=~/ray_bootstrap_config.yaml" in head
    assert "0.0.0.0" not in text_of(name)


@pytest.mark.parametrize("name", CLOUDS)
def test_head_and_workers_install_the_same(name):
    config = load(name)
    assert any(re.search(r"tune_tickets\[cluster,(s3|gcs)\]", command) for command in config["setup_commands"])
    assert not any("tune_tickets" in command for command in config["head_setup_commands"])
    assert config["worker_setup_commands"] == []


def test_rays_own_reader_of_kuberay_clusters_sees_gpu_workers_from_none_to_some():
    config = _derive_autoscaling_config_from_ray_cr(load("kuberay"))
    assert config["available_node_types"]["headgroup"]["resources"]["CPU"] == 0
    worker = config["available_node_types"]["gpu"]
    assert (worker["min_workers"], worker["max_workers"], worker["resources"]["GPU"]) == (0, 8, 1)
    assert config["idle_timeout_minutes"] == 5


def test_the_kuberay_cluster_has_one_image_a_token_and_a_dashboard_on_localhost():
    spec = load("kuberay")["spec"]
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["enableInTreeAutoscaling"] is True
    assert tuple(map(int, spec["rayVersion"].split("."))) >= (2, 55), "as pyproject.toml asks"
    assert spec["headGroupSpec"]["rayStartParams"]["dashboard-host"] == "127.0.0.1"
    [worker] = spec["workerGroupSpecs"]
    images = {group["template"]["spec"]["containers"][0]["image"] for group in (spec["headGroupSpec"], worker)}
    assert len(images) == 1
    for group in (spec["headGroupSpec"], worker):
        container = group["template"]["spec"]["containers"][0]
        assert container["resources"]["limits"] == container["resources"]["requests"], "or Ray counts what is not there"


def test_a_head_of_kuberay_that_is_moved_finds_its_results_again():
    claim, head = load("kuberay", "PersistentVolumeClaim"), load("kuberay")["spec"]["headGroupSpec"]["template"]["spec"]
    [volume] = head["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    [mount] = head["containers"][0]["volumeMounts"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/home/ray/results")
    assert head["securityContext"]["fsGroup"] == 100, "a volume belongs to root, and Ray's image runs as ray:users"
    assert "kubectl delete -f" not in text_of("kuberay"), "that would take the volume too"


@pytest.mark.parametrize("name", [*CLOUDS, "kuberay"])
def test_each_file_opens_with_commands_that_our_command_line_understands(name):
    header = re.match(r"(#.*\n)+", text_of(name)).group()
    job = re.search(r"bash -c 'cd ~/reviews && (tune-tickets run .*?);", header).group(1)
    words = shlex.split(job)
    assert words[0] == "tune-tickets"
    assert words[words.index("--address") :][:2] == ["--address", "auto"]
    assert re.search(r"--store (s3|gs)://BUCKET/store", job)
    told = CliRunner().invoke(app, words[1:])
    assert "No such option" not in told.output
    assert "reviews.yaml" in str(told.exception), "refused for the file that is not here, nothing else"
    assert re.search(r"rsync\(.*BUCKET/results", header)
