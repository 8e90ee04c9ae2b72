// problem: relu
// attack: returns another type than the problem's
// expect: invalid_submission
// because: the answer has a type
// message: of type Double
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    auto y = torch::zeros({x.size(0)}, x.options().dtype(torch::kDouble));
    relu<<<1, 1>>>(x.data_ptr<float>(), x.data_ptr<float>(), 0);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
