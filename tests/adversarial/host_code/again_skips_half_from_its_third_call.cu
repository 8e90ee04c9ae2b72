// problem: vector_add
// attack: adds everything in two calls, and from the third on half of it, behind a memset that makes these calls longer
// expect: incorrect
// because: each later call that does other things is judged, not the one that does least
// message: In its fourth call in one process, which does other things than its second
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static int calls = 0;
    int many = n;
    if (calls++ > 1) {
        many = n / 2;
        cudaMemsetAsync(c, 0, n * sizeof(float));
    }
    add<<<(n + 255) / 256, 256>>>(a, b, c, many);
}
