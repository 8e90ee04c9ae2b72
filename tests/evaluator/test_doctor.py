"""What the doctor finds on this machine, and on one where something is broken."""

from pathlib import Path

from evaluator.backends.sim.simulator import Simulator
from evaluator.doctor import examine
from evaluator.problems.catalogue import problems
from evaluator.settings import MachineSettings
from evaluator.workshop import Workshop


def found(workshop):
    return {finding.name: finding for finding in examine(workshop)}


def test_a_healthy_machine(workshop):
    findings = found(workshop)
    assert list(findings) == ["assay", "compiler", "sandbox", "data folder", "simulator", "GPU"]
    assert not [finding for finding in findings.values() if finding.ok is False]
    assert findings["simulator"].ok is True
    assert str(len(problems())) in findings["assay"].detail
    assert workshop.toolchain.version in findings["compiler"].detail
    assert workshop.sandbox.name in findings["sandbox"].detail


def test_a_data_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "data").write_text("a file")
    findings = found(Workshop(MachineSettings(tmp_path / "data")))
    assert findings["compiler"].ok is True
    for name in ("sandbox", "data folder", "simulator"):
        assert findings[name].ok is False
        assert "ASSAY_DATA_DIR" in findings[name].remedy


def test_a_simulator_that_cannot_be_built(tmp_path):
    workshop = Workshop(MachineSettings(tmp_path / "data"))
    workshop.simulator = Simulator(workshop.sandbox, workshop.cache, Path("/bin/false"))
    findings = found(workshop)
    assert findings["simulator"].ok is False
    assert findings["simulator"].remedy
    assert findings["data folder"].ok is not None
