"""The stage store in a bucket, through the real s3fs, with other writers and killed drivers."""

import json
import threading
import time

import pytest

from tests.integration.bucket import NAME, bucket_server, client, leading_to
from tests.integration.conftest import TAG, left_behind
from tests.integration.test_search import runs_of, summary_of
from tests.stages import Stage
from tune_tickets.cli.app import main
from tune_tickets.engine.inventory import inventory, verify
from tune_tickets.engine.lease import LeaseHeld, holder_of, leased
from tune_tickets.engine.stage import digest_of
from tune_tickets.engine.store import Store
from tune_tickets.errors import StoreError

pytestmark = pytest.mark.integration
pytest.importorskip("moto", reason="the bucket on this machine comes with the extra 'test'")
pytest.importorskip("s3fs", reason="buckets come with the extra 's3'")


@pytest.fixture
def bucket(tmp_path, environment):
    with bucket_server(tmp_path / "server.log", environment) as found:
        yield found


@pytest.fixture
def store(bucket):
    """The bucket as this process sees it. Every test has its own server and file system."""
    with leading_to(bucket):
        yield Store(f"s3://{NAME}/store")


STAGE = Stage("retrain", {"number": 1})


def test_what_others_write_anew_can_be_read_at_any_moment(store, bucket):
    path, other, over = f"{NAME}/store/retrain/x/history.json", client(bucket), threading.Event()

    def write() -> None:
        length = 0
        while not over.is_set():
            length += 1
            content = json.dumps(list(range(length % 50)))
            other.put_object(Bucket=NAME, Key="store/retrain/x/history.json", Body=content.encode())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while store.read_json(path) is None:
            time.sleep(0.05)
        for _ in range(150):
            read = store.history("retrain", "x")
            assert read == list(range(len(read)))
    finally:
        over.set()
        writer.join()


def test_what_others_have_written_since_a_listing_is_found(store, bucket):
    attempt = store.begin(STAGE)
    attempt.put("ticket.safetensors", b"weights")
    assert store.result(STAGE) is None
    [entry] = inventory(store)
    folder = store.folder(STAGE.name, STAGE.digest)
    store.remove(f"{folder}/nothing")
    body = {"record": {}, "files": {}, "history": [], "seconds": 1.0, "content": STAGE.digest, "attempt": "theirs"}
    theirs = json.dumps({"body": body, "sha256": digest_of(body)})
    client(bucket).put_object(Bucket=NAME, Key=f"store/retrain/{STAGE.digest}/result.json", Body=theirs.encode())
    assert store.result(STAGE) is not None
    assert not list(entry.results())
    assert list(inventory(store)[0].results())


def test_a_lease_keeps_others_out_and_goes_with_its_holder(store):
    with leased(store, STAGE, seconds=30.0, owner="one"):
        assert holder_of(store, STAGE, "two") is not None
        with pytest.raises(LeaseHeld), leased(store, STAGE, seconds=30.0, owner="two"):
            pass
    assert holder_of(store, STAGE, "two") is None


def test_damage_in_a_bucket_is_found_and_set_aside(store, bucket):
    attempt = store.begin(STAGE)
    attempt.put("ticket.safetensors", b"weights")
    attempt.finish({}, 1.0)
    assert verify(store, inventory(store), lambda done, total: None) == []
    [blob] = [path for path in store.files() if path.endswith("ticket.safetensors")]
    client(bucket).put_object(Bucket=NAME, Key=f"store/{blob}", Body=b"changed")
    [flaw] = verify(store, inventory(store), lambda done, total: None)
    assert "ticket.safetensors is changed" in flaw.reason
    flaw.set_aside(store)
    assert store.result(STAGE) is None
    assert [path for path in store.files() if path.startswith("quarantine/") and path.endswith("ticket.safetensors")]


@pytest.mark.parametrize(
    ("url", "named", "said"),
    [
        ("s3://absent/store", {}, "cannot be written (FileNotFoundError"),
        (f"s3://{NAME}/store", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "EndpointConnectionError"),
        ("nonsense://x", {}, "Protocol not known"),
    ],
)
def test_a_store_that_does_not_answer_is_said_before_anything_is_computed(
    bucket, tiny_yaml, tmp_path, capsys, url, named, said
):
    with leading_to(bucket | named), pytest.raises(SystemExit) as ended:
        main(["run", str(tiny_yaml), "--output", str(tmp_path / "out"), "--store", url])
    told = capsys.readouterr().err
    assert ended.value.code == StoreError.exit_code
    assert told.startswith("Error: the store ")
    assert said in told
    assert "--store" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.timeout(900)
def test_a_search_on_a_bucket_survives_the_kill_of_its_driver(bucket, start, cli, tiny_yaml, tmp_path, environment):
    environment.update(bucket)
    out, url = tmp_path / "out", f"s3://{NAME}/store"
    driver = start("run", tiny_yaml, "--output", out, "--store", url, "evaluation.rows=4")
    for line in driver.stdout:
        if "trial" in line and "retrain begins" in line:
            break
    driver.kill()
    driver.communicate()
    code, printed = cli("resume", out)
    assert code == 0, printed
    summary = summary_of(out)
    assert [(trial.id, trial.status) for trial in summary.trials] == [(f"t{n:03d}", "complete") for n in range(3)]
    assert {run.info.status for run in runs_of(out)} == {"FINISHED"}
    assert len(runs_of(out)) == 1 + 3 + 1
    code, printed = cli("store", "verify", "--store", url)
    assert (code, "0 damaged" in printed) == (0, True), printed
    deadline = time.monotonic() + 120  # Ray's agents look for the rest of a killed session for a minute
    while len(left_behind(environment[TAG])) > 1 and time.monotonic() < deadline:
        time.sleep(0.5)
    assert [command for command in left_behind(environment[TAG]) if "moto.server" not in command] == []
