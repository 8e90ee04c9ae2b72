// problem: vector_add
// attack: fills the disk
// expect: runtime_error
// because: a file has 8 MiB at most, and the folder 64
// message: limit
#include <cuda_runtime.h>
#include <cstdio>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    FILE* file = fopen("big", "w");
    static char block[1 << 20];
    for (int i = 0; file && i < 10240; ++i) fwrite(block, 1, sizeof block, file);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
