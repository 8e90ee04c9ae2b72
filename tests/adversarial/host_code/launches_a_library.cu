// problem: reduce_sum
// attack: has a library do all of the work
// expect: unsupported
// because: a kernel of CUB is not the submission's own
// message: CUB
#include <cub/cub.cuh>

__global__ void nothing(float* total) {}

extern "C" void solve(const float* x, float* total, int n)
{
    size_t bytes = 0;
    void* scratch = nullptr;
    cub::DeviceReduce::Sum(scratch, bytes, x, total, n);
    cudaMalloc(&scratch, bytes);
    cub::DeviceReduce::Sum(scratch, bytes, x, total, n);
    cudaFree(scratch);
}
