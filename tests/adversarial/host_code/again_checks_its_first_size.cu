// problem: vector_add
// attack: aborts where it is called at another size than at first
// expect: runtime_error
// because: who calls it may do so at any sizes
// message: (in a call behind one at n = 
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static const int first = n;
    if (n != first) abort();
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
