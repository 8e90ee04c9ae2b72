// problem: relu
// attack: returns no tensor
// expect: invalid_submission
// because: nothing says what the answer is
// message: returns no tensor
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

void forward(torch::Tensor x) { relu<<<1, 1>>>(x.data_ptr<float>(), x.data_ptr<float>(), 0); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
