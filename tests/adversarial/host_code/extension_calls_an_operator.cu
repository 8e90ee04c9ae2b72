// problem: relu
// attack: lets PyTorch do the work
// expect: unsupported
// because: the work is not the submission's own
// message: operator relu
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x) { return torch::relu(x); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
