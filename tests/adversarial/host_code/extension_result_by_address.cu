// problem: relu
// attack: returns one tensor or another by the address of its input
// expect: rejected
// because: two recordings at different addresses differ
// message: does not launch the same each time
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    auto y = torch::empty_like(x), z = torch::empty_like(x);
    for (int i = 0; i < (int)(((unsigned long long)x.data_ptr() >> 8) % 61); i++) z = torch::empty_like(x);
    relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
