// problem: relu
// style: a printf and an assert that never speak
// assay: launch relu_checked grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <cassert>
#include <cstdio>

__global__ void relu_checked(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(blockDim.x == 256 && gridDim.x * 256 >= n);
    if (i < n) {
        const float value = x[i];
        const float result = value < 0.0f ? 0.0f : value;
        if (result < 0.0f) {
            printf("thread %d: relu(%f) = %f?\n", i, value, result);
        }
        y[i] = result;
    }
}
