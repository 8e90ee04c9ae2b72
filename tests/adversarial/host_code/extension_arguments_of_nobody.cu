// problem: relu
// attack: calls what stands for PyTorch's with arguments that it does not take, as PyTorch's own may
// expect: unsupported
// because: our headers have fewer overloads
// message: at::Tensor::to with arguments
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int64_t n)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    x = x.to(x, x.options(), x);
    auto y = torch::empty_like(x);
    relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("forward", &forward);
}
