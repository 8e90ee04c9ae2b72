// problem: vector_add
// attack: writes into the same tensor at each call of one size, and returns it
// expect: passed
// because: it is computed anew each time
#include <torch/extension.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b)
{
    static torch::Tensor kept = torch::zeros_like(a);
    if (kept.numel() != a.numel()) kept = torch::zeros_like(a);
    add<<<(a.numel() + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), kept.data_ptr<float>(), a.numel());
    return kept;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
