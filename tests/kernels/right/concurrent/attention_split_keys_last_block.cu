// problem: attention
// assay: temp part float32 (heads * seq * 2 * (dim + 2))
// assay: temp done uint32 (heads * seq)
// assay: fill done value=0
// assay: launch att grid=(heads * seq, 2) block=(128) args=(q, k, v, o, part, done, seq, dim)
// style: two blocks share the keys of a query; whoever comes second combines: fence.acq_rel via cuda::atomic_thread_fence
#include <cuda/atomic>

__global__ void att(const float* q, const float* k, const float* v, float* o, float* part, unsigned* done, int seq, int dim)
{
    __shared__ float p[128], red[4];
    __shared__ unsigned order;
    const int query = blockIdx.x, head = query / seq, t = threadIdx.x;
    const int half = (seq + 1) / 2, begin = blockIdx.y * half, end = min(seq, begin + half);
    const float* qr = q + (size_t)query * dim;
    const float scale = rsqrtf((float)dim);
    float m = -INFINITY, sum = 0.0f, acc = 0.0f;
    for (int base = begin; base < end; base += 128) {
        float s = -INFINITY;
        if (base + t < end) {
            const float* kr = k + ((size_t)head * seq + base + t) * dim;
            s = 0.0f;
            for (int d = 0; d < dim; ++d) s += qr[d] * kr[d];
            s *= scale;
        }
        float top = s;
        for (int d = 16; d; d >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
        __syncthreads();
        if (t % 32 == 0) red[t / 32] = top;
        __syncthreads();
        top = fmaxf(m, fmaxf(fmaxf(red[0], red[1]), fmaxf(red[2], red[3])));
        p[t] = expf(s - top);
        __syncthreads();
        const float shrink = expf(m - top);
        sum *= shrink;
        acc *= shrink;
        m = top;
        for (int j = 0; j < min(128, end - base); ++j) {
            sum += p[j];
            if (t < dim) acc += p[j] * v[((size_t)head * seq + base + j) * dim + t];
        }
    }
    float* mine = part + ((size_t)query * 2 + blockIdx.y) * (dim + 2);
    const float* other = part + ((size_t)query * 2 + 1 - blockIdx.y) * (dim + 2);
    if (t < dim) mine[t] = acc;
    if (t == 0) {
        mine[dim] = m;
        mine[dim + 1] = sum;
    }
    __syncthreads();
    if (t == 0) {
        cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_device);
        order = atomicAdd(&done[query], 1u);
        cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_device);
    }
    __syncthreads();
    if (order != 1 || t >= dim) return;
    const float om = other[dim], os = other[dim + 1], top = fmaxf(m, om);
    const float f = sum > 0.0f ? expf(m - top) : 0.0f, g = os > 0.0f ? expf(om - top) : 0.0f;
    o[(size_t)query * dim + t] = (acc * f + other[t] * g) / (sum * f + os * g);
}
