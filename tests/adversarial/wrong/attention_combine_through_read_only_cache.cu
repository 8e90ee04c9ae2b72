// problem: attention
// class: schedule
// must: anything but passed
// why: the last of two blocks for a query combines both parts, but reads them by ld.global.nc, which is for memory that no one writes during the kernel, and there is no fence before the counter
// proof: PTX ld.global.nc: the memory must be read-only for the kernel's life; CUDA guide: fence missing between partial result and counter
// assay: temp part float32 (heads * seq * 2 * (dim + 2))
// assay: temp count uint32 (heads * seq)
// assay: fill count value=0
// assay: launch split grid=(2, seq, heads) block=(64) args=(q, k, v, o, part, count, seq, dim)

__global__ void split(const float* q, const float* k, const float* v, float* o, float* part, unsigned* count, int seq, int dim)
{
    __shared__ float s[64], query[128];
    __shared__ bool last;
    const int t = threadIdx.x, which = blockIdx.x, row = blockIdx.z * seq + blockIdx.y;
    const size_t head = (size_t)blockIdx.z * seq * dim;
    const int half = (seq + 1) / 2, begin = which * half, end = min(seq, begin + half);
    for (int d = t; d < dim; d += 64) query[d] = q[(size_t)row * dim + d];
    float top = -1e30f, sum = 0.f, acc[2] = {0.f, 0.f};
    for (int j0 = begin; j0 < end; j0 += 64) {
        __syncthreads();
        float dot = -INFINITY;
        if (j0 + t < end) {
            dot = 0.f;
            for (int d = 0; d < dim; ++d) dot += query[d] * k[head + (size_t)(j0 + t) * dim + d];
            dot *= rsqrtf((float)dim);
        }
        s[t] = dot;
        __syncthreads();
        float higher = top;
        for (int j = 0; j < 64; ++j) higher = fmaxf(higher, s[j]);
        const float old = expf(top - higher);
        sum *= old; acc[0] *= old; acc[1] *= old;
        for (int j = 0; j < min(64, end - j0); ++j) {
            const float p = expf(s[j] - higher);
            sum += p;
            for (int i = 0; i < 2; ++i)
                if (t + 64 * i < dim) acc[i] += p * v[head + (size_t)(j0 + j) * dim + t + 64 * i];
        }
        top = higher;
    }
    float* mine = part + ((size_t)row * 2 + which) * (dim + 2);
    for (int i = 0; i < 2; ++i) if (t + 64 * i < dim) mine[t + 64 * i] = acc[i];
    if (t == 0) { mine[dim] = top; mine[dim + 1] = sum; }
    __syncthreads();
    if (t == 0) last = atomicAdd(&count[row], 1u) == 1u;
    __syncthreads();
    if (!last) return;
    const float *a = part + (size_t)row * 2 * (dim + 2), *b = a + dim + 2;
    const float m = fmaxf(__ldg(a + dim), __ldg(b + dim));
    const float wa = expf(__ldg(a + dim) - m), wb = expf(__ldg(b + dim) - m);
    const float z = wa * __ldg(a + dim + 1) + wb * __ldg(b + dim + 1);
    for (int d = t; d < dim; d += 64) o[(size_t)row * dim + d] = (wa * __ldg(a + d) + wb * __ldg(b + d)) / z;
}
