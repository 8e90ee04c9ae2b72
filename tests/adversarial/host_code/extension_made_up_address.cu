// problem: relu
// attack: returns a tensor at an address that nobody has
// expect: rejected
// because: it is in no buffer
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    relu<<<1, 1>>>(x.data_ptr<float>(), x.data_ptr<float>(), 0);
    return torch::from_blob((void*)((1ull << 44) + 16), x.sizes(), x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
