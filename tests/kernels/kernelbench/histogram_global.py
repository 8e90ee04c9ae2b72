# problem: histogram
# style: torch.zeros in Python, atomics in global memory
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void count(const int* values, int* counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(counts + values[i], 1);
}
void histogram_into(torch::Tensor values, torch::Tensor counts)
{
    int n = values.numel();
    count<<<(n + 255) / 256, 256>>>(values.data_ptr<int>(), counts.data_ptr<int>(), n);
}
"""
ext = load_inline(
    name="histogram_global",
    cpp_sources="void histogram_into(torch::Tensor values, torch::Tensor counts);",
    cuda_sources=cuda,
    functions=["histogram_into"],
)


class ModelNew(nn.Module):
    def forward(self, values):
        counts = torch.zeros(256, dtype=torch.int32, device="cuda")
        ext.histogram_into(values, counts)
        return counts
