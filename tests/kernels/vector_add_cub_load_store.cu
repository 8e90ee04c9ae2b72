// problem: vector_add
// style: cub::BlockLoad and BlockStore that turn a striped tile into a blocked one and back
// assay: launch add grid=(ceil_div(n, 512)) block=(128) args=(a, b, c, n)

#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    typedef cub::BlockLoad<float, 128, 4, cub::BLOCK_LOAD_TRANSPOSE> Load;
    typedef cub::BlockStore<float, 128, 4, cub::BLOCK_STORE_TRANSPOSE> Store;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } scratch;
    const int start = blockIdx.x * 512, count = min(512, n - start);
    float x[4], y[4];
    Load(scratch.load).Load(a + start, x, count, 0.0f);
    __syncthreads();
    Load(scratch.load).Load(b + start, y, count, 0.0f);
    __syncthreads();
    for (int i = 0; i < 4; ++i) x[i] += y[i];
    Store(scratch.store).Store(c + start, x, count);
}
