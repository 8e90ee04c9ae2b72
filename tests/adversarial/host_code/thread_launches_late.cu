// problem: vector_add
// attack: a thread launches after solve has returned
// expect: invalid_submission|rejected
// because: a recording ends when solve returns
#include <cuda_runtime.h>
#include <thread>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    std::thread([=] { sleep(1); add<<<(n + 255) / 256, 256>>>(a, b, c, n); }).detach();
}
