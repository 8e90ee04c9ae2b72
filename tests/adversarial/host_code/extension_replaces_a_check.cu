// problem: relu
// attack: defines a function of the headers again
// expect: compile_error
// because: a name has one definition
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

namespace assay {
void check_failed(const std::string&) { throw 1; }
} // namespace assay

torch::Tensor forward(torch::Tensor x)
{
    auto y = torch::empty_like(x);
    relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
