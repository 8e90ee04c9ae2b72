// problem: reduce_sum
// attack: has a library do all of the work, in a namespace of another name and by a pasted name
// expect: unsupported
// because: a kernel of CUB is not the submission's own, whatever namespace it is wrapped in
// message: CUB
#define CUB_WRAPPED_NAMESPACE mine
#define THRUST_CUB_WRAPPED_NAMESPACE mine
#include <cub/cub.cuh>
#define PASTE(a, b) a##b

using Sum = mine::cub::PASTE(Device, Reduce);

__global__ void nothing(float* total) {}

extern "C" void solve(const float* x, float* total, int n)
{
    size_t bytes = 0;
    void* scratch = nullptr;
    Sum::Sum(scratch, bytes, x, total, n);
    cudaMalloc(&scratch, bytes);
    Sum::Sum(scratch, bytes, x, total, n);
    cudaFree(scratch);
}
