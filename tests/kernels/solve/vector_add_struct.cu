// problem: vector_add
// style: one argument: a struct with the pointers in it
#include <cuda_runtime.h>

struct Arguments {
    int n;
    const float* a;
    const float* b;
    float* c;
    short tail[3];
};

__global__ void add(Arguments arguments)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < arguments.n) arguments.c[i] = arguments.a[i] + arguments.b[i] * arguments.tail[1];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    Arguments arguments{n, a, b, c, {0, 1, 2}};
    add<<<dim3((n + 127) / 128, 1, 1), dim3(128)>>>(arguments);
}
