"""A worker whose GPU's referee cannot be started: everyone is told why within seconds, and no evaluation is lost.

There is no GPU here, so the referee's real process really cannot start; all else is the real service.
"""

import contextlib
import socket
import threading
import time

import pytest
from api_service import facts, served
from working import accept, data_dir, done, until

from common.contract import Status
from evaluator.backends.gpu.device.health import Gpu
from evaluator.backends.gpu.runner.channel import socket_address
from evaluator.pipeline.gpu.client import GpuReferee, StartFailure
from evaluator.pipeline.toolbox import Toolbox
from evaluator.service.storage.storage import open_storage
from evaluator.service.workers.worker import Worker
from evaluator.settings import MachineSettings

GPU = Gpu(0, "GPU-0", "stand-in", "sm_90", 1 << 33, 1 << 33, "1.0", (13, 0), None, "default", None)
WHY = "libcuda.so.1: cannot open shared object file"


class Deaf:
    def announce(self, evaluation_id, queue):
        pass


@pytest.fixture
def service(tmp_path):
    with served(f"sqlite:///{tmp_path / 'assay.db'}", tmp_path) as here:
        yield here


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Every Python that starts under these ends with what a driver that is missing says."""
    path = tmp_path / "path"
    path.mkdir()
    (path / "sitecustomize.py").write_text(
        f"import sys\nif 'evaluator.pipeline.gpu.server' in sys.orig_argv:\n"
        f"    open({str(tmp_path / 'tried')!r}, 'a').write('x')\n    raise SystemExit({WHY!r})\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(path))
    return MachineSettings(data_dir(tmp_path / "data"))


@contextlib.contextmanager
def working(storage, settings, queues=("compile", "sim", "gpu")):
    """A worker with a GPU that works as `run_embedded` does."""
    toolbox = Toolbox(settings)
    toolbox.gpu = GpuReferee(GPU, settings)
    worker = Worker(storage.evaluations, storage.leases, storage.workers, toolbox, Deaf(), queues)
    over = threading.Event()

    def work():
        while not over.is_set():
            if not worker.take():
                over.wait(0.1)

    thread = threading.Thread(target=work)
    worker.start()
    thread.start()
    try:
        yield worker
    finally:
        over.set()
        thread.join(60)
        worker.close()


def test_it_is_told_within_seconds_and_the_evaluation_ends_with_the_reason(service, settings, tmp_path):
    began_s = time.monotonic()
    with working(service.storage, settings), service.http() as http:
        ready = until(lambda: (told := http.get("/readyz")).status_code == 503 and WHY in told.text and told, 10)
        assert ready.json()["reason"].startswith("No GPU can be used: The referee of stand-in could not be started")
        assert [one["level"] for one in service.logged("the GPU's referee cannot be started")] == ["error"]
        browser = {"Accept": "text/html"}
        assert WHY in http.get("/", headers=browser).text
        assert "in trouble" in http.get("/", headers=browser).text
        assert 'assay_workers_in_trouble{backend="gpu"} 1' in http.get("/metrics").text

        evaluation = accept(service.storage, backend="gpu")
        waits = until(lambda: (one := service.storage.evaluations.get(evaluation, None)).queue == "gpu" and one, 20)
        assert (waits.state, waits.attempt) == ("queued", 0)
        assert WHY in http.get(f"/evaluations/{evaluation}", headers=browser).text
        # What needs no GPU goes on meanwhile.
        assert done(service.storage, accept(service.storage, backend="sim")).verdict.status is Status.PASSED

        verdict = done(service.storage, evaluation, 90).verdict
        assert verdict.status is Status.INTERNAL_ERROR
        assert WHY in verdict.message
        assert verdict.reward is None
        lasted_s = time.monotonic() - began_s
        # From then on they end at once, and the referee is tried ever more rarely.
        late_s = time.monotonic()
        verdicts = [done(service.storage, accept(service.storage, backend="gpu"), 20).verdict for _ in range(3)]
        assert time.monotonic() - late_s < 15
        assert all(WHY in verdict.message for verdict in verdicts)
    assert (tmp_path / "tried").stat().st_size <= 5 + (lasted_s + 15) / 15


def test_once_it_starts_all_is_well(service, settings):
    with working(service.storage, settings), service.http() as http, socket.socket(socket.AF_UNIX) as listener:
        until(lambda: http.get("/readyz").status_code == 503 and "referee" in http.get("/readyz").text, 10)
        with socket_address(settings.data_dir / "referees" / "GPU-0.sock") as place:
            listener.bind(place)
        listener.listen()
        until(lambda: http.get("/readyz").json()["ready"], 20)
        assert service.logged("the GPU's referee can be started again")
        assert service.storage.workers.fleet(60)[0].trouble is None


def test_where_another_gpu_can_be_used_the_evaluation_is_left_to_it(service, settings):
    service.storage.workers.register(facts(id="well", queues=("gpu",), backend="gpu"))
    with working(service.storage, settings) as worker, service.http() as http:
        until(lambda: any(one.trouble for one in service.storage.workers.fleet(60)), 10)
        assert http.get("/readyz").json()["ready"] is True
        evaluation = accept(service.storage, backend="gpu")
        until(lambda: service.storage.evaluations.get(evaluation, None).queue == "gpu", 20)
        until(lambda: worker._toolbox.gpu.trouble.lasting, 60)
        service.storage.workers.seen("well")
        time.sleep(1)
        assert service.storage.evaluations.get(evaluation, None).state == "queued"


def test_a_worker_for_a_gpu_alone_waits_and_claims_nothing_while_a_start_is_to_come(settings, tmp_path):
    storage = open_storage(f"sqlite:///{tmp_path / 'assay.db'}")
    storage.database.upgrade()
    toolbox = Toolbox(settings)
    toolbox.gpu = GpuReferee(GPU, settings)
    worker = Worker(storage.evaluations, storage.leases, storage.workers, toolbox, Deaf(), ("gpu.GPU-0",))
    assert isinstance(toolbox.gpu.start(), StartFailure)
    assert worker.take() is False
    assert worker.take(("gpu.GPU-0",)) is False
    storage.database.close()


def test_the_doctor_starts_it_too(settings, monkeypatch):
    from evaluator.cli import doctor

    toolbox = Toolbox(settings)
    toolbox.gpu = GpuReferee(GPU, settings)
    finding = doctor._gpu_referee(toolbox)
    assert (finding.name, finding.ok) == ("GPU referee", False)
    assert WHY in finding.detail
    assert str(toolbox.gpu.log) in finding.remedy
