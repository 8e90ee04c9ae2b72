// problem: reduce_sum
// class: schedule
// race: fence
// must: anything but passed
// why: the parts are volatile, which is taken for a fence: nothing stands between a part and the counter
// proof: PTX: volatile is relaxed; two relaxed accesses of different words are not ordered
// assay: temp part float32 (64)
// assay: temp count uint32 (1)
// assay: fill count value=0
// assay: launch sum grid=(64) block=(128) args=(x, part, count, total, n)
__global__ void sum(const float* x, volatile float* part, unsigned* count, float* total, int n)
{
    __shared__ float s[128];
    __shared__ bool last;
    const int t = threadIdx.x;
    float v = 0.0f;
    for (int i = blockIdx.x * 128 + t; i < n; i += 8192) v += x[i];
    s[t] = v;
    for (int h = 64; h; h >>= 1) {
        __syncthreads();
        if (t < h) s[t] += s[t + h];
    }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        last = atomicInc(count, 63u) == 63u;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    s[t] = t < 64 ? part[t] : 0.0f;
    for (int h = 64; h; h >>= 1) {
        __syncthreads();
        if (t < h) s[t] += s[t + h];
    }
    if (t == 0) *total = s[0];
}
