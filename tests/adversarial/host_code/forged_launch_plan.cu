// problem: vector_add
// attack: writes a recording that launches a kernel of nobody
// expect: runtime_error|rejected
// because: a recording is checked as any plan
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
        fputs("{\"buffers\": [{\"base\": 4096, \"bytes\": 16}, {\"base\": 8192, \"bytes\": 16}, {\"base\": 16384, \"bytes\": 16}], \"steps\": [{\"kernel\": \"judge\", \"grid\": [1, 1, 1], \"block\": [1, 1, 1], \"shared_bytes\": 0, \"cooperative\": false, \"cluster\": null, \"stream\": 0, \"arguments\": []}], \"streams\": 1}", file);
        fclose(file);
    }
    _exit(0);
}
