// problem: relu
// attack: returns a tensor whose sizes and strides reach beyond its memory
// expect: rejected|runtime_error|invalid_submission
// because: what is returned has to lie in its buffer
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    auto small = torch::zeros({1}, x.options());
    relu<<<1, 1>>>(x.data_ptr<float>(), small.data_ptr<float>(), 1);
    return small.as_strided({x.numel()}, {1});
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
