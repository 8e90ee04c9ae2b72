# problem: references/numbers_and_lists.py
# style: arguments that are a list, numbers, text and None, by other names; outputs in a dict, in another order
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
__global__ void both(const float* a, const float* b, float* total, float* other, float scale, int steps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    total[i] = scale * a[i] + b[i] + 1.f;
    other[i] = a[i] - steps * b[i];
}
std::vector<torch::Tensor> both_of(torch::Tensor a, torch::Tensor b, double scale, int64_t steps)
{
    auto total = torch::empty_like(a), other = torch::empty_like(a);
    int n = a.numel();
    both<<<(n + 127) / 128, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), total.data_ptr<float>(),
                                   other.data_ptr<float>(), scale, steps, n);
    return {total, other};
}
"""
ext = load_inline(
    name="both",
    cpp_sources="std::vector<torch::Tensor> both_of(torch::Tensor, torch::Tensor, double, int64_t);",
    cuda_sources=source,
    functions=["both_of"],
)


class ModelNew(nn.Module):
    def forward(self, tensors, factor: float, count: int, mode="sum", mask=None):
        assert mode == "sum" and mask is None
        total, other = ext.both_of(tensors[0], tensors[1], factor, count)
        return {"other": [other], "total": total}
