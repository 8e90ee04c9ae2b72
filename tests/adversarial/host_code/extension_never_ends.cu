// problem: relu
// attack: waits for ever where it registers its functions
// expect: timeout|runtime_error
// because: the module has a time limit too
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

static bool wait_for_ever()
{
    for (volatile int i = 0;; i++) {}
    return true;
}
static bool waited = wait_for_ever();

torch::Tensor forward(torch::Tensor x)
{
    auto y = torch::empty_like(x);
    relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
