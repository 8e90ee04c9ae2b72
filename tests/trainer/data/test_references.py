"""Files of others as tasks: what a real service says of them, and what the agents are told."""

import asyncio
from pathlib import Path

import pytest

from common.client import AsyncClient
from trainer.config.reading import load_config
from trainer.data.references import read_references
from trainer.errors import ConfigurationError
from trainer.evaluator import run_tasks

HEAD = "import torch\nfrom torch import nn\n\nn, m = 24, 40\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
TAIL = "\n\n\ndef get_inputs():\n    return [torch.randn(n, m)]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    bodies = {
        "1_Scaled.py": "torch.tanh(x) * 2.0",
        "2_Sum.py": "x.sum(-1)",
        "3_Softmax.py": "torch.softmax(x, -1)",
        "4_Gram.py": "x @ x.t()",
        "5_Gram_Twice.py": "torch.softmax(x @ x.t(), -1) @ x",
        "6_Noise.py": "x + torch.rand(n, m)",
    }
    (tmp_path / "level1").mkdir()
    for name, body in bodies.items():
        (tmp_path / "level1" / name).write_text(f"{HEAD}        return {body}{TAIL}")
    (tmp_path / "level1" / "again.py").write_text("")
    return tmp_path


def test_files_are_tasks_with_the_tier_of_what_they_compute(service, folder, monkeypatch):
    (folder / "level1" / "again.py").unlink()
    told: list[str] = []
    asked = [f"evaluator.url={service.url}", "tasks.problems=[relu]", f"tasks.references=[{folder}]"]
    config = load_config("cpu-demo", [*asked, "tasks.variants=3", "tasks.held_out=12", "tasks.wording=full"])
    monkeypatch.setattr("trainer.data.references.is_held_out", lambda name: "2_sum" in name)
    training, held_out = asyncio.run(run_tasks.tasks_of(config, told.append))
    (refused,) = [one for one in told if "is left out" in one]
    assert refused.startswith("6_Noise.py is left out: 6_Noise.py:9: forward draws random numbers")
    tiers = {task.reference.name: task.tier for task in (*training, *held_out) if task.reference}
    assert tiers == {"1_Scaled.py": 0, "2_Sum.py": 1, "3_Softmax.py": 2, "4_Gram.py": 2, "5_Gram_Twice.py": 3}
    assert len(training) == 3 * 5
    assert not [task for task in training if task.reference and task.reference.name == "2_Sum.py"]
    (gram, *_) = [task for task in training if task.reference and task.reference.name == "4_Gram.py"]
    assert "return x @ x.t()" in gram.text
    assert "out" in gram.text
    assert gram.problem == gram.reference.problem_id

    async def known() -> set[str]:
        async with AsyncClient(service.url) as client:
            return {face.id for face in await client.problems("caller")}

    assert {task.problem for task in training if task.reference} <= asyncio.run(known())


def test_where_none_can_be_graded_a_run_does_not_begin(service, folder):
    only = folder / "level1" / "6_Noise.py"
    config = load_config(
        "cpu-demo", [f"evaluator.url={service.url}", f"tasks.references=[{only}]", "tasks.wording=full"]
    )
    with pytest.raises(ConfigurationError, match=r"none of tasks\.references"):
        asyncio.run(run_tasks.tasks_of(config, lambda said: None))


def test_what_cannot_be_read_is_named(folder):
    with pytest.raises(ConfigurationError, match=r"again\.py has 0 bytes"):
        read_references([folder])
    (folder / "empty").mkdir()
    for path, reason in (("gone", "cannot be read"), ("empty", "no file of a problem below")):
        with pytest.raises(ConfigurationError, match=reason):
            read_references([folder / path])
    (folder / "level1" / "again.py").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_references([folder])
    with pytest.raises(ConfigurationError, match="set wording to full"):
        load_config("cpu-demo", [f"tasks.references=[{folder}]", "tasks.wording=brief"])


def test_a_file_that_is_called_as_all_others_has_the_name_of_its_folder(tmp_path):
    for name in ("12_relu", "13 (sum)"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "challenge.py").write_text(f"# {name}\n")
    assert [one.name for one in read_references([tmp_path])] == ["12_relu.py", "13__sum_.py"]
