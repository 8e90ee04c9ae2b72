// problem: vector_add
// attack: catches the fault of reading device memory, and goes on
// expect: passed
// because: it has read nothing: there is nothing at the address
#include <cuda_runtime.h>
#include <csetjmp>
#include <csignal>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
static sigjmp_buf back;
extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    signal(SIGSEGV, [](int) { siglongjmp(back, 1); });
    if (!sigsetjmp(back, 1)) n = (int)a[0];
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
