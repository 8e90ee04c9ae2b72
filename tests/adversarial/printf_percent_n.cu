// problem: relu
// attack: printf formats that write memory, or read arguments that are not there
// expect: passed|runtime_error|unsupported|compile_error
// run_timeout_s: 5
// because: formats come from the submission and are never given to the host's own printf
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <cstdio>

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        int count = 0;
        printf("%s%s%s%n %999999999d %*d\n", "a", "b", "c", &count, 1, 2000000000, 3);
        printf((const char*)x, 1, 2, 3);
    }
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
