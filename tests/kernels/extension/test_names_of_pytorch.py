"""Names of PyTorch's that compute nothing: each is there for an extension, and says what PyTorch's says."""

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate

RELU = """#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>
__global__ void relu(const float* x, float* y, int64_t n)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.f);
}
torch::Tensor launched(torch::Tensor x, torch::Tensor y)
{
    relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
BEFORE
torch::Tensor forward(torch::Tensor x)
{
    auto y = torch::empty_like(x);
    INSIDE
    return launched(x, y);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
FUNCTION = """struct Relu : public torch::autograd::Function<Relu> {
    static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor x, double slope)
    {
        ctx->save_for_backward({x});
        ctx->saved_data["slope"] = slope;
        return launched(x, torch::empty_like(x));
    }
    using List = torch::autograd::variable_list;
    static List backward(torch::autograd::AutogradContext* ctx, List g)
    {
        return {g[0] * (ctx->get_saved_variables()[0] > 0), torch::Tensor()};
    }
};"""
LIBRARY = """TORCH_LIBRARY_FRAGMENT(own, m) {
    m.def("relu(Tensor x) -> Tensor");
    m.impl("relu", TORCH_FN(launched));
}"""
CASES = {
    "autograd": ("return Relu::apply(x, 0.0);", Status.PASSED),
    "library": ("TORCH_CHECK(y.defined());", Status.PASSED),
    "streams of text": (
        """std::ostringstream said;
        said << x.sizes() << x.dtype() << x.device();
        TORCH_CHECK(said.str().size());""",
        Status.PASSED,
    ),
    "ranges": (
        """for (auto dim : c10::irange(x.dim())) TORCH_CHECK(x.size(dim) >= 0);
        at::DimVector all(x.sizes());
        y = y.view(all);""",
        Status.PASSED,
    ),
    "old arguments": (
        "y = at::empty(x.sizes(), x.scalar_type(), at::kStrided, x.device(), c10::nullopt, c10::nullopt);",
        Status.PASSED,
    ),
    "a transposed tensor is dense": (
        "TORCH_CHECK(x.view({1, -1}).t().is_non_overlapping_and_dense());",
        Status.PASSED,
    ),
    "like one with gaps": (
        """auto gaps = at::empty({4, 6}, x.options()).narrow(1, 0, 3);
        TORCH_CHECK(!gaps.is_contiguous() && at::empty_like(gaps).is_contiguous());""",
        Status.PASSED,
    ),
    "like one in a format": (
        """auto format = at::MemoryFormat::ChannelsLast;
        auto last = at::empty({2, 3, 4, 5}, x.options().memory_format(format));
        TORCH_CHECK(last.stride(1) == 1 && at::zeros_like(last).stride(3) == 3 && !last.is_contiguous());
        TORCH_CHECK(last.suggest_memory_format() == format && last.clone().is_contiguous(format));""",
        Status.PASSED,
    ),
    "another format": (
        "at::empty({2, 3, 4, 5}, x.options()).contiguous(at::MemoryFormat::ChannelsLast);",
        Status.UNSUPPORTED,
    ),
    "split by sizes": (
        """auto parts = y.split_with_sizes({0, x.numel()});
        TORCH_CHECK(parts[1].numel() == x.numel());""",
        Status.PASSED,
    ),
    "a name that is not there": ("auto z = torch::indexing::TensorIndex(3);", Status.UNSUPPORTED),
    "an operator by indices": ("auto z = x.index({torch::indexing::Slice(0, 1)});", Status.UNSUPPORTED),
}


@pytest.mark.parametrize("name", CASES)
def test_names_of_pytorch_that_compute_nothing_are_there(name, toolbox):
    inside, status = CASES[name]
    source = RELU.replace("BEFORE", f"{FUNCTION}\n{LIBRARY}").replace("INSIDE", inside)
    settings = Settings(verification="quick", estimate_for=None)
    verdict = evaluate(Submission(problem="relu", source=source, settings=settings), toolbox)
    assert verdict.status is status, f"{verdict.phase}: {verdict.message}"
