// problem: prefix_sum
// style: one block walks the array with cub::BlockLoad, BlockScan with a running prefix, and BlockStore
// assay: launch scan grid=(1) block=(128) args=(x, y, n)

#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

struct Running {
    float total;
    __device__ float operator()(float block)
    {
        float before = total;
        total += block;
        return before;
    }
};

__global__ void scan(const float* x, float* y, int n)
{
    typedef cub::BlockLoad<float, 128, 4, cub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
    typedef cub::BlockScan<float, 128> Scan;
    typedef cub::BlockStore<float, 128, 4, cub::BLOCK_STORE_WARP_TRANSPOSE> Store;
    __shared__ union {
        typename Load::TempStorage load;
        typename Scan::TempStorage scan;
        typename Store::TempStorage store;
    } scratch;
    Running running{0.0f};
    for (int start = 0; start < n; start += 512) {
        float items[4];
        int count = min(512, n - start);
        Load(scratch.load).Load(x + start, items, count, 0.0f);
        __syncthreads();
        Scan(scratch.scan).InclusiveSum(items, items, running);
        __syncthreads();
        Store(scratch.store).Store(y + start, items, count);
        __syncthreads();
    }
}
