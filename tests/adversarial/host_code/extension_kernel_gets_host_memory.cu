// problem: relu
// attack: gives a kernel a tensor that is on the host
// expect: runtime_error
// because: a GPU cannot follow such a pointer
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    auto here = torch::ones({x.size(0)}), y = torch::empty_like(x);
    relu<<<(x.numel() + 255) / 256, 256>>>(here.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
