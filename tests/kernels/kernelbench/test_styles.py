"""Solutions as modules of PyTorch's are written: what is made, asked and initialised, and where elements lie.

Each is a change of a right solution, for CUDA C++ and for Triton, that leaves it right, or makes it wrong or no longer
recordable. What is right is never called wrong.
"""

from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.foreign.loading import foreign_problem
from evaluator.pipeline.pipeline import evaluate

FOLDER = Path(__file__).parent
QUICK = Settings(verification="quick", estimate_for=None)
RELU = (FOLDER / "relu_plain.py").read_text()
LINEAR = {
    "cuda": (FOLDER / "linear_bias.py")
    .read_text()
    .replace("import torch.nn as nn", "import torch\nimport torch.nn as nn"),
    "triton": (FOLDER / "linear_triton.py").read_text(),
}

CHANNELS = """import torch
from torch import nn

batch, channels, height, width = 3, 6, 5, 4


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return x * self.scale.view(1, -1, 1, 1)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels]
"""
BY_CUDA = """import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(name="scaled", cpp_sources="torch::Tensor scaled(torch::Tensor x, torch::Tensor s, bool last);",
    functions=["scaled"], cuda_sources='''
__global__ void scale(const float* x, const float* s, float* y, int n, int c, int area, bool last)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * s[last ? i % c : i / area % c];
}
torch::Tensor scaled(torch::Tensor x, torch::Tensor s, bool last)
{
    auto y = torch::empty_like(x);
    int n = x.numel();
    scale<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), s.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1),
                                    x.size(2) * x.size(3), last);
    return y;
}
''')


def scaled(x, s, last=False):
    return ext.scaled(x, s, last)

"""
BY_TRITON = """import torch
from torch import nn
import triton
import triton.language as tl


@triton.jit
def scale(x, s, y, n, c, area, LAST: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = i % c if LAST else i // area % c
    tl.store(y + i, tl.load(x + i, mask=i < n) * tl.load(s + channel, mask=i < n), mask=i < n)


def scaled(x, s, last=False):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 128),)](x, s, y, x.numel(), x.size(1), x.size(2) * x.size(3), LAST=last, BLOCK=128)
    return y

"""
MODEL = """
class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        FORWARD
"""
LAYOUTS = {
    "a branch by the memory format": (
        "last = x.is_contiguous(memory_format=torch.channels_last); return scaled(x, self.scale, last)",
        Status.PASSED,
    ),
    "copied into a format and read in another": (
        "return scaled(x.contiguous(memory_format=torch.channels_last), self.scale)",
        Status.UNSUPPORTED,
    ),
    "converted to a format": (
        "return scaled(x.to(memory_format=torch.channels_last), self.scale, True)",
        Status.UNSUPPORTED,
    ),
    "a copy of its own": ("return scaled(x.to(x.dtype, copy=True), self.scale)", Status.PASSED),
    "a copy in its format": (
        "return scaled(x.clone(memory_format=torch.preserve_format), self.scale)",
        Status.PASSED,
    ),
    "an allocation in a format": (
        "y = torch.empty_like(x, memory_format=torch.channels_last); return scaled(y.copy_(x), self.scale, True)",
        Status.UNSUPPORTED,
    ),
    "strides": (
        "assert x.stride(-1) == 1 and x.stride() == torch.empty(x.shape).stride(); return scaled(x, self.scale)",
        Status.PASSED,
    ),
}

INITIALISED = {
    "by walking through its modules": """
        self.linear = nn.Linear(in_features, out_features)
        for one in self.modules():
            if isinstance(one, (nn.Linear, nn.ConvTranspose1d)):
                nn.init.kaiming_uniform_(one.weight, nonlinearity="relu")
        assert all(isinstance(one, nn.Parameter) for one in self.parameters())""",
    "as nn.Linear does itself": """
        self.weight = nn.Parameter(torch.Tensor(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features))
        fan_in, _ = nn.init._calculate_fan_in_and_fan_out(self.weight)
        nn.init.uniform_(self.bias, -1 / fan_in**0.5, 1 / fan_in**0.5)
        self.weight.data.normal_(0, nn.init.calculate_gain("relu") / fan_in**0.5)""",
    "by an expression": """
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(out_features) + 0.1 * torch.ones(1))""",
    "by another's state": """
        self.linear = nn.Linear(in_features, out_features)
        self.linear.load_state_dict(nn.Linear(in_features, out_features).state_dict())
        self.linear.bias.data = self.linear.bias.data.contiguous()""",
    "from a layer that it does not keep": """
        layer = nn.Linear(in_features, out_features)
        self.weight = nn.Parameter(layer.weight.detach().clone())
        self.bias = nn.Parameter(layer.bias.data.clone())""",
    "in a dict of modules": """
        self.layers = nn.ModuleDict({"linear": nn.Linear(in_features, out_features)})
        self.linear = self.layers["linear"]
        self.drop = nn.Dropout(0.25)
        self.eval()
        assert self.drop.p == 0.25 and not self.drop.training""",
}
LAYER = "\n        self.linear = nn.Linear(in_features, out_features)"
NO_PARAMETER = {
    "another layout": "\n        self.linear.weight = nn.Parameter(self.linear.weight.t().contiguous().t())",
    "a factor folded in": "\n        self.linear.weight = nn.Parameter(self.linear.weight * 2)",
    "a factor folded in, in place": "\n        self.linear.weight.data.mul_(2)",
}

AROUND = {
    "guards": ("        return", "        with torch.cuda.device(x.device), torch.autocast('cuda', enabled=False):\n            return"),
    "decorators": ("    def forward", "    @torch.compiler.disable\n    @torch.no_grad()\n    def forward"),
    "imports": ("import torch\n", "import torch\nimport torch.backends.cudnn as cudnn\nfrom torch.cuda.amp import autocast\n"),
    "annotations": ("x: torch.Tensor)", "x: torch.FloatTensor, dtype: 'torch.dtype' = None, n: torch.Size | None = None)"),
    "a device that is asked": ("        return", "        assert torch.cuda.get_device_properties(0).multi_processor_count > 1\n        return"),
    "a random name": ('name="relu"', 'name="relu" + __import__("uuid").uuid4().hex'),
    "a type that is asked of the result": (".relu_cuda(x)", ".relu_cuda(x.float()).to(x.dtype)"),
    "views": (".relu_cuda(x)", ".relu_cuda(x[:, None].squeeze(1)[0 : x.numel()])"),
    "a version": ("        return", "        assert torch.__version__ >= '2' and torch.version.cuda\n        return"),
}  # fmt: skip


def graded(source, toolbox, text, name):
    with foreign_problem(text, name, toolbox.sandbox, toolbox.cache) as problem:
        submission = Submission(problem=problem.id, source=source, settings=QUICK)
        return evaluate(submission, toolbox, problem=problem)


def graded_linear(form, changed, toolbox):
    assert LAYER in LINEAR[form]
    source = LINEAR[form].replace(LAYER, changed)
    if "self.linear" not in changed:
        source = source.replace("self.linear.", "self.")
    return graded(source, toolbox, (FOLDER / "references/linear_bias.py").read_bytes(), "linear_bias.py")


CASES = {
    **{f"{name}, {form}": (form, name, None) for name in LAYOUTS for form in LINEAR},
    **{
        f"initialised {name}, {form}": (form, text, Status.PASSED)
        for name, text in INITIALISED.items()
        for form in LINEAR
    },
    **{
        f"{name}, {form}": (form, LAYER + text, Status.UNSUPPORTED)
        for name, text in NO_PARAMETER.items()
        for form in LINEAR
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_what_pytorch_makes_of_it(name, toolbox):
    form, changed, status = CASES[name]
    if status is None:
        forward, status = LAYOUTS[changed]
        source = (BY_CUDA if form == "cuda" else BY_TRITON) + MODEL.replace("FORWARD", forward)
        verdict = graded(source, toolbox, CHANNELS.encode(), "channels.py")
    else:
        verdict = graded_linear(form, changed, toolbox)
    assert verdict.status is status, f"{verdict.phase}: {verdict.message}"


@pytest.mark.parametrize("name", AROUND)
def test_what_stands_around_the_kernels_is_carried_out(name, toolbox):
    before, after = AROUND[name]
    assert before in RELU
    source = RELU.replace(before, after, 1)
    verdict = evaluate(Submission(problem="relu", source=source, settings=QUICK, dialect="kernelbench"), toolbox)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}"


@pytest.mark.parametrize(("factor", "status"), [("1", Status.PASSED), ("2", Status.INCORRECT)])
def test_two_modules_may_define_the_same_names(factor, status, toolbox):
    second = RELU[RELU.index("relu_source =") : RELU.index("class ModelNew")]
    second = second.replace("fmaxf(x[idx], 0.0f)", f"{factor} * x[idx]").replace("relu = load", "scale = load")
    source = RELU.replace("class ModelNew", f"{second}class ModelNew")
    source = source.replace("self.relu.relu_cuda(x)", "scale.relu_cuda(self.relu.relu_cuda(x))")
    verdict = evaluate(Submission(problem="relu", source=source, settings=QUICK), toolbox)
    assert verdict.status is status, f"{verdict.phase}: {verdict.message}"
