// problem: vector_add
// attack: launches another way each time
// expect: rejected
// because: it is recorded twice, and both must be the same
// message: not launch the same each time
#include <cuda_runtime.h>
#include <cstdlib>
#include <ctime>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    srand(time(nullptr) ^ (unsigned)getpid());
    add<<<(n + 255) / 256 + rand() % 1000, 256>>>(a, b, c, n);
}
