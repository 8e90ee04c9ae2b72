// problem: prefix_sum
// style: cub::BlockLoad and BlockStore transposed through warps, BlockScan's inclusive sums of threads minus their own; look-back by one thread
// assay: temp state uint64 (ceil_div(n, 1152))
// assay: temp ticket int32 (1)
// assay: fill state value=0
// assay: fill ticket value=0
// assay: launch cub_scan grid=(ceil_div(n, 1152)) block=(128) args=(x, y, state, ticket, n)
#include <cub/cub.cuh>

__global__ void cub_scan(const float* x, float* y, unsigned long long* state, int* ticket, int n)
{
    using Load = cub::BlockLoad<float, 128, 9, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<float, 128, 9, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Scan = cub::BlockScan<float, 128, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Scan::TempStorage scan;
    } temp;
    __shared__ int tile;
    __shared__ float before;
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1);
    __syncthreads();
    const int first = tile * 1152, valid = min(1152, n - first);
    float v[9];
    Load(temp.load).Load(x + first, v, valid, 0.0f);
    __syncthreads();
    for (int k = 1; k < 9; ++k) v[k] += v[k - 1];
    float inclusive, all;
    Scan(temp.scan).InclusiveSum(v[8], inclusive, all);
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        if (tile > 0) {
            atomicExch(state + tile, 1ull << 32 | __float_as_uint(all));
            for (int t = tile - 1; t >= 0; --t) {
                unsigned long long s;
                while (((s = atomicAdd(state + t, 0ull)) >> 32) == 0) {}
                sum += __uint_as_float((unsigned)s);
                if (s >> 32 == 2) break;
            }
        }
        atomicExch(state + tile, 2ull << 32 | __float_as_uint(sum + all));
        before = sum;
    }
    __syncthreads();
    const float offset = before + inclusive - v[8];
    for (int k = 0; k < 9; ++k) v[k] += offset;
    Store(temp.store).Store(y + first, v, valid);
}
