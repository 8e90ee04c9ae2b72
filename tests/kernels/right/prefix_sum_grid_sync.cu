// problem: prefix_sum
// assay: temp sums float32 (64)
// assay: launch scan_grid grid=(64) block=(128) cooperative shared=(128 * 4 + 64 * 4) args=(x, y, sums, n)
// style: one cooperative launch: local scan, grid.sync(), every block adds up the sums to its left; shared memory carved by hand
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void scan_grid(const float* x, float* y, float* sums, int n)
{
    extern __shared__ __align__(16) unsigned char memory[];
    float* const lanes = reinterpret_cast<float*>(memory);
    float* const left = lanes + 128;
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    const int chunk = (n + gridDim.x - 1) / gridDim.x;
    const int begin = min(n, (int)blockIdx.x * chunk), end = min(n, begin + chunk);
    float carry = 0.0f;
    for (int base = begin; base < end; base += 128) {
        const int i = base + threadIdx.x;
        lanes[threadIdx.x] = i < end ? x[i] : 0.0f;
        block.sync();
        for (int d = 1; d < 128; d <<= 1) {
            const float o = threadIdx.x >= d ? lanes[threadIdx.x - d] : 0.0f;
            block.sync();
            lanes[threadIdx.x] += o;
            block.sync();
        }
        if (i < end) y[i] = lanes[threadIdx.x] + carry;
        carry += lanes[127];
        block.sync();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = carry;
    grid.sync();
    if (threadIdx.x < 64) left[threadIdx.x] = threadIdx.x < blockIdx.x ? sums[threadIdx.x] : 0.0f;
    block.sync();
    float before = 0.0f;
    for (int b = 0; b < 64; ++b) before += left[b];
    for (int i = begin + threadIdx.x; i < end; i += 128) y[i] += before;
}
