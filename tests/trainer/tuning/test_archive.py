"""Files in the schema of the AI CUDA Engineer archive: read, refused, and what of a row can be graded.

All rows are written here; none is copied from the archive.
"""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.contract import Status
from trainer.errors import ConfigurationError
from trainer.tuning.archive import COLUMNS, archive_candidates, archive_tasks, device_part, read_archive

MODULE = """\
import torch
n = 1000
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) * x
def get_inputs():
    return [torch.randn(n)]
def get_init_inputs():
    return []
"""
KERNEL = """\
__device__ float gated(float v) { return v / (1.0f + expf(-v)); }

__global__ void gate(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { out[i] = gated(x[i]); }
}
"""
EXTENSION = f"""\
#include <torch/extension.h>
#include <cuda_runtime.h>
#define THREADS 256
// __global__ in a comment is none
{KERNEL}
torch::Tensor forward(torch::Tensor x) {{
    auto out = torch::empty_like(x);
    gate<<<(x.numel() + THREADS - 1) / THREADS, THREADS>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    return out;
}}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("forward", &forward); }}
"""


def row(**changes):
    return {
        "Op_Name": "7_Gate",
        "Level_ID": 1,
        "Task_ID": 7,
        "Kernel_Name": "gate_base",
        "CUDA_Runtime": 0.01,
        "PyTorch_Native_Runtime": 0.02,
        "PyTorch_Compile_Runtime": 0.03,
        "CUDA_Speedup_Native": 2.0,
        "CUDA_Speedup_Compile": 3.0,
        "CUDA_Code": EXTENSION,
        "PyTorch_Code_Module": MODULE,
        "PyTorch_Code_Functional": "",
        "Correct": True,
        "Max_Diff": 0.0,
        "Error": None,
        "NCU_Profile": None,
        "Torch_Profile": None,
        "Clang_Tidy": None,
        **changes,
    }


def written(path, *rows, drop=(), rename=None):
    table = pa.Table.from_pylist([row(**changes) for changes in rows or ({},)])
    table = table.drop_columns(list(drop)).rename_columns(
        [(rename or {}).get(name, name) for name in table.column_names if name not in drop]
    )
    pq.write_table(table, path)
    return path


def test_a_row_becomes_a_kernel_to_grade_for_the_module_that_it_is_for_and_nothing_of_it_is_believed(tmp_path):
    rows = read_archive(written(tmp_path / "level_1.parquet", {}, {"Kernel_Name": "wrong", "Correct": False}))
    one, other = archive_candidates(rows)
    assert one.source == other.source
    # Kept only where it passes: what fails without its host code may be right with it.
    assert (one.expected, one.provenance.place) == (Status.PASSED, "level_1.parquet, row 1: gate_base")
    assert one.reference.text == MODULE
    assert one.problem == one.reference.problem_id
    (task,) = archive_tasks(rows)
    assert (task.problem, task.tier, task.reference) == (one.problem, 0, one.reference)
    assert MODULE.strip() in task.text


def test_a_share_of_the_tasks_is_held_out_by_level_and_number(tmp_path):
    rows = read_archive(written(tmp_path / "a.parquet", *({"Task_ID": number} for number in range(200))))
    assert 20 < sum(one.held_out for one in rows) < 60
    again = read_archive(written(tmp_path / "b.parquet", {"Task_ID": 5, "CUDA_Code": KERNEL}))
    assert again[0].held_out is rows[5].held_out


def test_only_the_device_part_is_kept():
    kept = device_part(EXTENSION)
    assert "gated" in kept
    assert "#define THREADS 256" in kept
    assert not any(word in kept for word in ("torch", "PYBIND", "<<<", "comment"))
    assert kept.count("__global__") == 1


@pytest.mark.parametrize(
    "code",
    [
        "torch::Tensor forward(torch::Tensor x) { return x; }",
        KERNEL + KERNEL.replace("gate(", "second("),
        KERNEL.replace("__global__", "template <typename scalar_t>\n__global__"),
        "__global__ void never_closed(float* out) { out[0] = 1.0f;",
    ],
)
def test_what_has_no_kernel_or_several_or_one_that_needs_the_host_cannot_be_graded(tmp_path, code):
    assert device_part(code) is None
    rows = read_archive(written(tmp_path / "level_2.parquet", {"CUDA_Code": code}))
    assert list(archive_candidates(rows)) == []


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_that_is_missing_or_renamed_is_refused_by_its_name(tmp_path, name):
    with pytest.raises(ConfigurationError, match=f"no column {name}[,.]"):
        read_archive(written(tmp_path / "a.parquet", drop=[name]))
    with pytest.raises(ConfigurationError, match=f"no column {name}, has a column {name}2"):
        read_archive(written(tmp_path / "b.parquet", rename={name: f"{name}2"}))


def test_another_type_level_or_file_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="the column Correct holds string"):
        read_archive(written(tmp_path / "a.parquet", {"Correct": "yes"}))
    with pytest.raises(ConfigurationError, match="the column CUDA_Code holds int64"):
        read_archive(written(tmp_path / "b.parquet", {"CUDA_Code": 3}))
    with pytest.raises(ConfigurationError, match="row 2: Level_ID is 4"):
        read_archive(written(tmp_path / "c.parquet", {}, {"Level_ID": 4}))
    with pytest.raises(ConfigurationError, match=r"row 1: Task_ID is 7\.5"):
        read_archive(written(tmp_path / "c.parquet", {"Task_ID": 7.5}))
    torn = written(tmp_path / "c.parquet")
    whole, ends = torn.read_bytes(), pq.read_metadata(torn).row_group(0).total_byte_size // 2
    torn.write_bytes(whole[:4] + b"\xff" * ends + whole[4 + ends :])
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_archive(torn)
    (tmp_path / "d.parquet").write_text("Op_Name,Level_ID\n")
    with pytest.raises(ConfigurationError, match="no Parquet file"):
        read_archive(tmp_path / "d.parquet")


def test_rows_without_a_kernel_or_a_module_are_passed_over(tmp_path):
    path = written(tmp_path / "a.parquet", {}, {"CUDA_Code": ""}, {"PyTorch_Code_Module": None})
    assert len(read_archive(path)) == 1
    floats = written(tmp_path / "b.parquet", {"Task_ID": 7.0}, {"Task_ID": float("nan")}, {"Task_ID": None})
    assert [one.task for one in read_archive(floats)] == [7]
