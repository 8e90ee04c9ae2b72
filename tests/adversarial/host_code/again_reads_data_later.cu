// problem: vector_add
// attack: reads a result from its second call on
// expect: unsupported
// because: there is no data that it could look at
// message: second call
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static int calls = 0;
    float found = 0.0f;
    if (calls++) cudaMemcpy(&found, a, sizeof found, cudaMemcpyDeviceToHost);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
