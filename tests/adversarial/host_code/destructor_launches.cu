// problem: vector_add
// attack: does its work when the process ends
// expect: invalid_submission
// because: a recording ends when solve returns
// message: launches nothing
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
struct Late {
    const float *a, *b;
    float* c;
    int n;
    ~Late() { add<<<(n + 255) / 256, 256>>>(a, b, c, n); }
} late;
extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    late.a = a, late.b = b, late.c = c, late.n = n;
}
