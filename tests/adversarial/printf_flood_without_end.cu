// problem: relu
// attack: prints for minutes
// expect: timeout
// because: what is not kept is not formatted, and what is executed is counted
// message: times what the naive kernel takes

#include <cstdio>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = 0; j < 100000; j++) {
        printf("flood %d %s %f\n", i, "hello", x[0]);
    }
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
