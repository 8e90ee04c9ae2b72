// problem: relu
// attack: returns the input, as no kernel were needed
// expect: incorrect
// because: the answer is what is compared
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    relu<<<1, 1>>>(x.data_ptr<float>(), x.data_ptr<float>(), 0);
    return x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
