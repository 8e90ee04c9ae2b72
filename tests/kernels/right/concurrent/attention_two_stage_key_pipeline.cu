// problem: attention
// assay: launch at grid=(seq, heads) block=(128) shared=2*32*dim*8 args=(q, k, v, o, seq, dim)
// style: all threads in a block-scoped cuda::pipeline of two stages; memcpy_async of key and value tiles one tile ahead, online softmax
#include <cooperative_groups.h>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

__global__ void at(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    extern __shared__ float tiles[];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ float scores[32];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const size_t head = (size_t)blockIdx.y * seq * dim;
    const int t = threadIdx.x, count = (seq + 31) / 32, warp = t / 32, lane = t % 32;
    const float* mine = q + head + (size_t)blockIdx.x * dim;
    auto fetch = [&](int tile) {
        pipe.producer_acquire();
        if (tile < count) {
            const int keys = min(32, seq - tile * 32);
            float* room = tiles + (tile & 1) * 64 * dim;
            cuda::memcpy_async(block, room, k + head + (size_t)tile * 32 * dim, (size_t)keys * dim * 4, pipe);
            cuda::memcpy_async(block, room + 32 * dim, v + head + (size_t)tile * 32 * dim, (size_t)keys * dim * 4, pipe);
        }
        pipe.producer_commit();
    };
    fetch(0);
    float top = -3.0e38f, sum = 0.0f, acc = 0.0f;
    const float scale = rsqrtf((float)dim);
    for (int tile = 0; tile < count; ++tile) {
        fetch(tile + 1);
        pipe.consumer_wait();
        const float* keys = tiles + (tile & 1) * 64 * dim;
        for (int j = warp; j < 32; j += 4) {
            float s = 0.0f;
            if (tile * 32 + j < seq)
                for (int d = lane; d < dim; d += 32) s += mine[d] * keys[j * dim + d];
            for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
            if (lane == 0) scores[j] = tile * 32 + j < seq ? s * scale : -3.0e38f;
        }
        __syncthreads();
        const int here = min(32, seq - tile * 32);
        float higher = top;
        for (int j = 0; j < here; ++j) higher = fmaxf(higher, scores[j]);
        const float less = expf(top - higher);
        sum *= less;
        acc *= less;
        for (int j = 0; j < here; ++j) {
            const float p = expf(scores[j] - higher);
            sum += p;
            if (t < dim) acc += p * keys[(32 + j) * dim + t];
        }
        top = higher;
        __syncthreads();
        pipe.consumer_release();
    }
    pipe.consumer_wait();
    pipe.consumer_release();
    if (t < dim) o[head + (size_t)blockIdx.x * dim + t] = acc / sum;
}
