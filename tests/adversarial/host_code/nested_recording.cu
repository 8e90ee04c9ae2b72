// problem: vector_add
// attack: writes a recording that is nested without end
// expect: rejected
// because: it is read within bounds
#include <cuda_runtime.h>
#include <cstdio>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    for (int i = 0; i < 256; ++i) {
        char name[32];
        snprintf(name, sizeof name, "recording.%d", i);
        FILE* file = fopen(name, "w");
        if (!file) continue;
        for (int k = 0; k < 100000; ++k) fputs("[", file);
        fclose(file);
    }
    _exit(0);
}
