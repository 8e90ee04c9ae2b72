// problem: gelu
// attack: an assertion that does not hold
// expect: runtime_error
// because: assert is on, and its text helps
// fault: assert
// message: sizes_are_even
// assay: launch gelu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <cassert>

__global__ void gelu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool sizes_are_even = n % 2 == 0;
    assert(sizes_are_even);  // HERE
    if (i < n) {
        y[i] = 0.5f * x[i] * erfcf(-x[i] * 0.70710678f);
    }
}
