"""Where a run happens: an embedded evaluator that lives as long as the run, and Ray here and on two nodes."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from trainer.config.reading import load_config
from trainer.config.schema import TrainingConfig
from trainer.errors import ConfigurationError, OracleLostError
from trainer.rl import processes


def config(tmp_path, **evaluator):
    values = {"name": "first", "checkpointing": {"folder": str(tmp_path / "{name}")}, "evaluator": evaluator}
    return TrainingConfig.model_validate(values)


def servers(folder, parent=None):
    """A process's children, else this one's, that serve out of a folder of `folder`; other tests have servers of
    their own.
    """
    command = ["pgrep", "-P", str(parent or os.getpid()), "-f", f"serve.*{folder}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def eventually(look, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


@pytest.mark.parametrize(
    ("visible", "kept"),
    [(None, "7"), ("", "7"), ("8,9,10,11,12,13,14,15", "15"), ("0,1,2,3,4,5,6,GPU-8, GPU-9", "GPU-8")],
)
def test_the_last_gpu_is_kept_from_ray_for_the_evaluator(monkeypatch, visible, kept):
    """Status document, "GPU Allocation Strategy": reward_computation on cuda:7."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    allocation = load_config("allocation")
    assert processes.ray_settings(allocation)["num_gpus"] == 7
    assert processes.kept_gpu(allocation) == kept
    assert processes.ray_settings(load_config("requirements"))["num_gpus"] == 8


def test_the_embedded_evaluator_gets_the_gpu_that_is_kept_for_it(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(processes, "wait_for", lambda asked: {})

    def popen(command, **options):
        started.append(options["env"].get("ASSAY_GPU"))
        return real(command, **options)

    real = subprocess.Popen
    monkeypatch.delenv("ASSAY_GPU", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(processes.subprocess, "Popen", popen)
    monkeypatch.setattr(processes._Embedded, "_command", lambda self: ["echo", "http://127.0.0.1:9"])
    for name in ("allocation", "cpu-demo"):
        with processes.evaluator(load_config(name, [f"checkpointing.folder={tmp_path}/{name}"])):
            pass
    assert (started[0], started[-1]) == ("7", None)


def test_an_embedded_evaluator_answers_comes_back_after_a_kill_and_ends_with_the_run(tmp_path):
    with processes.evaluator(config(tmp_path, embedded=True, embedded_workers=1)) as ready:
        assert not ready.evaluator.embedded

        def answer():
            try:
                return processes.version_of(ready.evaluator.url)
            except OSError:
                return None

        assert {"assay", "contract"} <= set(eventually(answer))
        (first,) = servers(tmp_path)
        assert os.getsid(first) != os.getsid(0), "Ctrl-C in the terminal is not for it"
        os.kill(first, signal.SIGKILL)
        (second,) = eventually(lambda: [child for child in servers(tmp_path) if child != first])
        assert eventually(answer), "on the same port"
    assert servers(tmp_path) == []
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)
    assert ready.evaluator.url in (tmp_path / "first" / "evaluator.log").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends it")
def test_an_embedded_evaluator_ends_with_a_run_that_is_killed(tmp_path):
    program = (
        "import sys, time\n"
        "from trainer.config.reading import load_config\n"
        "from trainer.rl import processes\n"
        "with processes.evaluator(load_config('cpu-demo', sys.argv[1:])) as ready:\n"
        "    print(ready.evaluator.url, flush=True)\n"
        "    time.sleep(600)\n"
    )
    told = [f"checkpointing.folder={tmp_path}/{{name}}", "name=first", "evaluator.embedded_workers=1"]
    with subprocess.Popen([sys.executable, "-c", program, *told], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline().startswith("http://")
        (service,) = eventually(lambda: servers(tmp_path, run.pid))
        run.kill()

    def gone():
        # One that has ended and that nobody has asked for its end yet has no command line.
        try:
            return not Path(f"/proc/{service}/cmdline").read_bytes()
        except OSError:
            return True

    assert eventually(gone)


def test_an_embedded_evaluator_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_WORKERS", "many")
    with pytest.raises(OracleLostError, match="ASSAY_WORKERS"), processes.evaluator(config(tmp_path, embedded=True)):
        pass


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answering(text, code=200, port=0):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(code)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", port), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def test_an_evaluator_that_is_down_is_waited_for_and_then_named(tmp_path, capsys):
    port = free_port()
    asked = config(tmp_path, url=f"http://127.0.0.1:{port}", start_patience_s=0.2)
    with pytest.raises(OracleLostError, match="does not answer") as caught, processes.evaluator(asked):
        pass
    assert "assay serve" in caught.value.remedy
    assert "Waiting for the evaluator" in capsys.readouterr().err
    patient = asked.evaluator.model_copy(update={"start_patience_s": 30})
    started = []
    threading.Timer(0.5, lambda: started.append(answering(b'{"version": "1"}', port=port))).start()
    assert processes.wait_for(patient) == {"version": "1"}
    started[0].shutdown()


def test_an_address_with_a_path_where_no_evaluator_is_gets_told_to_drop_it(service):
    asked = load_config("quick-test", ["evaluator.embedded=false", f"evaluator.url={service.url}/evaluate"]).evaluator
    with pytest.raises(ConfigurationError, match="it answers 404") as caught:
        processes.wait_for(asked)
    assert caught.value.remedy.startswith("Leave /evaluate out of the address, unless the service itself is there: ")


@pytest.mark.parametrize(("text", "code"), [(b"<html>", 200), (b"[]", 200), (b"{}", 404)])
def test_what_is_no_evaluator_is_not_waited_for(text, code):
    server = answering(text, code)
    with pytest.raises(ConfigurationError, match="is not an evaluator"):
        processes.version_of(f"http://127.0.0.1:{server.server_port}")
    server.shutdown()


def test_ray_gets_the_resources_of_the_configuration():
    settings = processes.ray_settings(load_config("critique"))
    assert settings["address"] == "local", "never one that happens to run here"
    assert (settings["num_cpus"], settings["num_gpus"], settings["object_store_memory"]) == (32, 4, 50 << 30)
    system = settings["_system_config"]
    assert system["max_io_workers"] == 8
    assert json.loads(system["object_spilling_config"])["params"] == {"directory_path": "/tmp/assay-spill"}
    there = processes.ray_settings(load_config("requirements", ["resources.ray_address=head:6379"]))
    assert there["address"] == "head:6379"
    assert not {"num_cpus", "num_gpus", "object_store_memory", "_system_config"} & set(there)


def test_the_cluster_file_is_valid_for_ray_itself():
    from ray.autoscaler._private.util import prepare_config, validate_config

    written = yaml.safe_load(processes.CLUSTER_FILE.read_text())
    validate_config(prepare_config(written))
    types = written["available_node_types"]
    assert (types["four-gpus"]["resources"], types["head"]["resources"]["GPU"]) == ({"CPU": 32, "GPU": 4}, 0)
    assert not [kind for kind in types.values() if kind["node_config"]["InstanceType"].startswith(("p2", "p3", "g3"))]
    head, worker = (" ".join(written[f"{kind}_start_ray_commands"]) for kind in ("head", "worker"))
    system = json.loads(head.partition("--system-config='")[2].rpartition("'")[0])
    assert system["max_io_workers"] == 8
    assert json.loads(system["object_spilling_config"])["type"] == "filesystem"
    assert f"--object-store-memory={50 << 30}" in worker


TWO_NODES = """
import os
import sys
import ray
from ray.cluster_utils import Cluster
from trainer.rl import processes
from trainer.config.schema import TrainingConfig

store = 80 << 20
head = {"num_cpus": 1, "resources": {"first": 1}, "object_store_memory": store}
cluster = Cluster(initialize_head=True, head_node_args=head)
try:
    for attempt in range(4):
        try:
            cluster.add_node(num_cpus=1, resources={"second": 1}, object_store_memory=store)
            break
        except Exception as error:  # Ray gives a node 30 s, which a busy machine may not have
            print(error, file=sys.stderr)
    config = TrainingConfig.model_validate({"resources": {"ray_address": cluster.address}})
    ray.init(**processes.ray_settings(config))
    cluster.wait_for_nodes()

    @ray.remote(num_cpus=1)
    def rewards(config, role):
        return ray.get_runtime_context().get_node_id(), config.for_agent(role).flow.max_turns

    first = rewards.options(resources={"first": 1}).remote(config, "generator")
    second = rewards.options(resources={"second": 1}).remote(config, "optimizer")
    found = ray.get([first, second], timeout=300)
    assert len({node for node, _ in found}) == 2, found
    assert [turns for _, turns in found] == [5, 5]
    print("two nodes have answered")

    from trainer.rl import agent_loop

    class Probe:
        def __init__(self, config, verl_configs, clients, key, ran_on):
            self.key = key

        def found(self):
            return self.key, os.environ.get("ASSAY_KEY"), ray.get_runtime_context().get_node_id()

    agent_loop.ConversationWorker = Probe
    os.environ["ASSAY_KEY"] = "assay_key"
    workers = [agent_loop.start_worker(config, {}, {}, {}) for _ in range(4)]
    here = ray.get_runtime_context().get_node_id()
    for worker in workers:
        assert ray.get(worker.found.remote(), timeout=300) == ("assay_key", None, here)
    print("the worker is here and has the key")
finally:
    ray.shutdown()
    cluster.shutdown()
"""


@pytest.mark.timeout(900)
def test_two_nodes_of_a_cluster_get_the_configuration_and_conversations_are_played_on_this_one_with_the_key():
    # In a process of its own: Ray changes the one that it is started in for good. The folder's name is short, since
    # it becomes the path of sockets.
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        done = subprocess.run(
            [sys.executable, "-c", TWO_NODES],
            capture_output=True,
            text=True,
            start_new_session=True,
            env={**{name: value for name, value in os.environ.items() if name != "ASSAY_KEY"}, "RAY_TMPDIR": folder},
            check=False,
        )
    for said in ("two nodes have answered", "the worker is here and has the key"):
        assert said in done.stdout, done.stdout + done.stderr[-3000:]
