// problem: relu
// attack: has a module without a function
// expect: invalid_submission
// because: there is nothing to call
// message: has no function
#include <torch/extension.h>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}



PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {  }
