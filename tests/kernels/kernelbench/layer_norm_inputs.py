# problem: layer_norm
# style: all of a layer as arguments, eps by its name
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = """
__global__ void layer_norm(const float* x, const float* w, const float* b, float* y, float eps, int cols)
{
    const float* row = x + (size_t)blockIdx.x * cols;
    float sum = 0.f, squares = 0.f;
    for (int c = threadIdx.x; c < cols; c += 32) sum += row[c];
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    float mean = sum / cols;
    for (int c = threadIdx.x; c < cols; c += 32) squares += (row[c] - mean) * (row[c] - mean);
    for (int o = 16; o; o /= 2) squares += __shfl_xor_sync(~0u, squares, o);
    float scale = rsqrtf(squares / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 32) y[(size_t)blockIdx.x * cols + c] = (row[c] - mean) * scale * w[c] + b[c];
}
torch::Tensor layer_norm_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps)
{
    auto y = torch::empty_like(x);
    layer_norm<<<x.size(0), 32>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), (float)eps, x.size(1));
    return y;
}
"""
ext = load_inline(
    name="layer_norm_inputs",
    cpp_sources="torch::Tensor layer_norm_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps);",
    cuda_sources=cuda,
    functions=["layer_norm_cuda"],
)


class ModelNew(nn.Module):
    def forward(self, x, weight, bias, eps):
        return ext.layer_norm_cuda(x, weight, bias, eps)
