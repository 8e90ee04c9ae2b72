// problem: relu
// attack: the right answer, and a flood of output
// expect: passed
// because: printing is captured up to a limit and the rest dropped
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <cstdio>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        if (i % 4 == 0) {
            printf("thread %d of %d says that its element is %f, and that it will say so every time\n", i, n, x[i]);
        }
        y[i] = fmaxf(x[i], 0.0f);
    }
}
