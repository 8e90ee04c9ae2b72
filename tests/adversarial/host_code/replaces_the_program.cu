// problem: vector_add
// attack: overwrites the program that is run next
// expect: runtime_error|passed|rejected
// because: it can only spoil its own recordings
#include <cuda_runtime.h>
#include <cstdio>
#include <sys/stat.h>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    unlink("host");
    if (FILE* file = fopen("host", "w")) {
        fputs("#!/bin/sh\nexit 0\n", file);
        fclose(file);
        chmod("host", 0755);
    }
}
