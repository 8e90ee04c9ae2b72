// problem: relu
// attack: throws an exception that nothing catches
// expect: runtime_error
// because: it does not return
// message: threw an exception: too many for me
#include <cuda_runtime.h>
#include <stdexcept>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

extern "C" void solve(const float* x, float* y, int n)
{
    if (n > 1000) throw std::runtime_error("too many for me");
    relu<<<(n + 255) / 256, 256>>>(x, y, n);
}
