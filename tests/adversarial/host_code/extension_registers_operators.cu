// problem: relu
// attack: binds its function with PyTorch's dispatcher alone
// expect: unsupported
// because: there is no dispatcher where it is recorded
// message: TORCH_LIBRARY
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int64_t n)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    auto y = torch::empty_like(x);
    relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

TORCH_LIBRARY(mine, m)
{
    m.def("forward", &forward);
}
