// problem: softmax
// class: schedule
// race: lost update
// must: anything but passed
// why: parts of a row merge maximum and sum by two atomics, one after the other: between them the sum belongs to another maximum, and a part that merges then scales wrongly
// proof: atomicMax and the update of the sum are two operations; a second block between them (one 64-bit CAS is needed)
// assay: temp tops int32 (rows)
// assay: temp sums float32 (rows)
// assay: fill tops value=0
// assay: fill sums value=0
// assay: launch merge grid=(rows, 4) block=(64) args=(x, tops, sums, cols)
// assay: launch put grid=(rows) block=(128) args=(x, tops, sums, y, cols)

// Larger floats have larger codes; 0 is below all.
__device__ int coded(float v) { const int b = __float_as_int(v); return ((b >= 0 ? b : b ^ 0x7fffffff) >> 1) + 0x40000000; }
__device__ float decoded(int c) { const int b = (c - 0x40000000) * 2; return __int_as_float(b >= 0 ? b : b ^ 0x7fffffff); }

__global__ void merge(const float* x, int* tops, float* sums, int cols)
{
    __shared__ float s[64];
    __shared__ int top;
    if (threadIdx.x == 0) top = 0;
    __syncthreads();
    const float* in = x + (size_t)blockIdx.x * cols;
    int t = 0;
    for (int c = blockIdx.y * 64 + threadIdx.x; c < cols; c += 256) t = max(t, coded(in[c]));
    atomicMax(&top, t);
    __syncthreads();
    const int mine = top;
    if (mine == 0) return;
    float v = 0.0f;
    for (int c = blockIdx.y * 64 + threadIdx.x; c < cols; c += 256) v += expf(in[c] - decoded(mine));
    s[threadIdx.x] = v;
    for (int h = 32; h; h >>= 1) {
        __syncthreads();
        if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
    }
    if (threadIdx.x == 0) {
        const int before = atomicMax(&tops[blockIdx.x], mine);
        if (before == 0) {
            atomicAdd(&sums[blockIdx.x], s[0]);
        } else if (before < mine) {
            const float old = atomicExch(&sums[blockIdx.x], 0.0f);
            atomicAdd(&sums[blockIdx.x], s[0] + old * expf(decoded(before) - decoded(mine)));
        } else {
            atomicAdd(&sums[blockIdx.x], s[0] * expf(decoded(mine) - decoded(before)));
        }
    }
}

__global__ void put(const float* x, const int* tops, const float* sums, float* y, int cols)
{
    const float top = decoded(tops[blockIdx.x]), sum = sums[blockIdx.x];
    for (int c = threadIdx.x; c < cols; c += 128) y[(size_t)blockIdx.x * cols + c] = expf(x[(size_t)blockIdx.x * cols + c] - top) / sum;
}
