// problem: vector_add
// attack: sets LD_PRELOAD and starts itself again
// expect: timeout|runtime_error|passed
// because: what it starts anew is as untrusted as before
#include <cuda_runtime.h>
#include <cstdlib>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    if (!getenv("LD_PRELOAD")) {
        setenv("LD_PRELOAD", "./host", 1);
        char self[] = "./host", zero[] = "0";
        char* arguments[] = {self, zero, nullptr};
        execv(self, arguments);
    }
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
