// problem: relu
// attack: ends the process in a constructor of a static object
// expect: runtime_error
// because: it did not get to forward
// message: did not get to `forward`
#include <torch/extension.h>
#include <unistd.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

struct Ends {
    Ends() { _exit(0); }
};
static Ends ends;

torch::Tensor forward(torch::Tensor x)
{
    auto y = torch::empty_like(x);
    relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
