"""What grading on the simulator imports: nothing that only a GPU needs."""

import json
import os
import subprocess
import sys

GRADE = """
import json, sys
from common.contract import Submission
import evaluator.cli.main
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


def test_grading_on_the_simulator_imports_nothing_of_a_gpu(toolbox):
    environment = {**os.environ, "ASSAY_DATA_DIR": str(toolbox.settings.data_dir)}
    run = subprocess.run([sys.executable, "-c", GRADE], env=environment, capture_output=True, text=True, check=True)
    told = json.loads(run.stdout)
    assert told["status"] == "passed"
    imported = {name for name in told["modules"] for part in OF_A_GPU if name == part or name.startswith(f"{part}.")}
    assert imported - WHETHER_THERE_IS_A_GPU == set()
    assert "evaluator.backends.sim.backend" in told["modules"]
