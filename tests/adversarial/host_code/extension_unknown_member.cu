// problem: relu
// attack: calls a member of a tensor that nothing stands for
// expect: unsupported
// because: PyTorch may have it
// message: to_mkldnn
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x) { return x.to_mkldnn(); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
