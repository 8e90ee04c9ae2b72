"""What grading CUDA on the simulator imports: nothing that only a GPU, host code, Python or a service needs."""

import json
import os
import subprocess
import sys

GRADE = """
import json, sys
from common.contract import Submission
import evaluator.cli.main, evaluator.cli.grade
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem
from evaluator.settings import MachineSettings

submission = Submission(problem="relu", source=find_problem("relu").naive.source, backend="sim")
verdict = evaluate(submission, Toolbox(MachineSettings.from_environment()))
print(json.dumps({"status": verdict.status, "modules": sorted(sys.modules)}))
"""
WHETHER_THERE_IS_A_GPU = {
    "evaluator.backends.gpu",
    "evaluator.backends.gpu.device",
    "evaluator.backends.gpu.device.health",
    "evaluator.backends.gpu.device.install",
}
OF_A_GPU = ("evaluator.backends.gpu", "evaluator.pipeline.gpu", "pynvml", "cuda", "pycuda", "torch")
WHICH_DIALECT = {"evaluator.stages.lift.dialects", "evaluator.stages.host.permission"}
OF_OTHER_DIALECTS = (
    "evaluator.foreign",
    "evaluator.pipeline.dialects.extensions",
    "evaluator.pipeline.dialects.triton_build",
    "evaluator.stages.host",
    "evaluator.stages.lift",
    "triton",
)
OF_A_SERVICE = ("celery", "evaluator.service", "fastapi", "httpx", "redis", "sqlalchemy", "uvicorn")
FOR_PEOPLE = ("evaluator.report", "rich")


def test_grading_cuda_on_the_simulator_imports_nothing_that_it_does_not_use(toolbox):
    environment = {**os.environ, "ASSAY_DATA_DIR": str(toolbox.settings.data_dir)}
    run = subprocess.run([sys.executable, "-c", GRADE], env=environment, capture_output=True, text=True, check=True)
    told = json.loads(run.stdout)
    assert told["status"] == "passed"
    assert _of(OF_A_GPU, told["modules"]) - WHETHER_THERE_IS_A_GPU == set()
    others = _of(OF_OTHER_DIALECTS, told["modules"]) - {"evaluator.stages.host", "evaluator.stages.lift"}
    assert others - WHICH_DIALECT == set()
    assert _of((*OF_A_SERVICE, *FOR_PEOPLE), told["modules"]) == set()
    assert "evaluator.backends.sim.backend" in told["modules"]


def _of(parts, modules):
    return {name for name in modules for part in parts if name == part or name.startswith(f"{part}.")}
