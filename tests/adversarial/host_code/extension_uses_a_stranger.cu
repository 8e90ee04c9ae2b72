// problem: relu
// attack: includes a header of PyTorch's for which nothing stands
// expect: unsupported
// because: it is named
// message: torch/csrc/jit/runtime/graph_executor.h
#include <torch/extension.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

torch::Tensor forward(torch::Tensor x)
{
    auto y = torch::empty_like(x);
    relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
