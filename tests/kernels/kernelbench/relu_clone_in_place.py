# problem: relu
# style: a clone that a kernel changes in place
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void relu_(float* x, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        if (x[i] < 0.f) x[i] = 0.f;
}
void relu_in_place(torch::Tensor x) { relu_<<<64, 256>>>(x.data_ptr<float>(), x.numel()); }
"""
ext = load_inline(
    name="relu_clone_in_place",
    cpp_sources="void relu_in_place(torch::Tensor x);",
    cuda_sources=cuda,
    functions=["relu_in_place"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        ext.relu_in_place(y)
        return y
