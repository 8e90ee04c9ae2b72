import pytest

from evaluator.stages.lift.dialects import dialect_of

KERNEL = "__global__ void k(float* x) {}\n"
MODULE = "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n"


@pytest.mark.parametrize(
    ("source", "dialect"),
    [
        (KERNEL, "cuda"),
        (KERNEL + MODULE, "torch-extension"),
        (KERNEL + f"// {MODULE}", "cuda"),
        ("// assay: launch k grid=(1) block=(1) args=(x)\n" + KERNEL + MODULE, "cuda"),
        (KERNEL + 'extern "C" void solve(float* x) { k<<<1, 1>>>(x); }\n', "solve"),
        ("import torch\n\nclass ModelNew(torch.nn.Module):\n    pass\n", "kernelbench"),
        (KERNEL + "class ModelNewer {};\n", "cuda"),
    ],
    ids=["kernel", "module", "comment", "plan", "solve", "solution", "another class"],
)
def test_a_text_says_which_dialect_it_is_in(source, dialect):
    assert dialect_of(source) == dialect
