// problem: relu
// attack: takes a struct, which nothing can be passed for
// expect: compile_error
// because: a function is called with pointers and numbers
// message: the compiler refuses the call of `solve`
#include <cuda_runtime.h>

struct Sizes {
    int n;
};

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

extern "C" void solve(const float* x, float* y, Sizes sizes)
{
    relu<<<(sizes.n + 255) / 256, 256>>>(x, y, sizes.n);
}
