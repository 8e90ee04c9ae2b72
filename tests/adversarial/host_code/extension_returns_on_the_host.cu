// problem: relu
// attack: returns a tensor on the host
// expect: runtime_error
// because: PyTorch makes tensors there where nobody says otherwise
// message: is on the host
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x) { return torch::zeros({x.size(0)}); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
