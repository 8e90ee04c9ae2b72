// problem: relu
// attack: claims what does not hold
// expect: runtime_error
// because: a failed assertion is a fault, and the verdict names its line and thread
// rehearse: no
// fault: assert
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <cassert>

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
        assert(i != 3);  // HERE
    }
}
