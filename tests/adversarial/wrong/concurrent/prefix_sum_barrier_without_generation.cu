// problem: prefix_sum
// class: schedule
// race: barrier
// must: anything but passed
// why: a hand-made grid barrier waits until the counter is at least the number of blocks, and is used twice without advancing the number: the second time all pass at once
// proof: the goal of the second barrier should be 2 * gridDim.x (a generation); blocks that read offsets before block 0 has made them
// assay: temp sums float32 (64)
// assay: temp offsets float32 (64)
// assay: temp arrived uint32 (1)
// assay: fill arrived value=0
// assay: fill offsets value=0
// assay: launch scan grid=(32) block=(64) cooperative args=(x, y, sums, offsets, arrived, n)

__device__ void grid_barrier(unsigned* arrived)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (*(volatile unsigned*)arrived < gridDim.x) { }
        __threadfence();
    }
    __syncthreads();
}

__global__ void scan(const float* x, float* y, volatile float* sums, volatile float* offsets, unsigned* arrived, int n)
{
    __shared__ float s[64];
    const int t = threadIdx.x, piece = (n + 31) / 32, begin = min(n, (int)blockIdx.x * piece), end = min(n, begin + piece);
    float v = 0.0f;
    for (int i = begin + t; i < end; i += 64) v += x[i];
    s[t] = v;
    for (int h = 32; h; h /= 2) {
        __syncthreads();
        if (t < h) s[t] += s[t + h];
    }
    if (t == 0) sums[blockIdx.x] = s[0];
    grid_barrier(arrived);
    if (blockIdx.x == 0 && t == 0) {
        float run = 0.0f;
        for (int b = 0; b < 32; ++b) {
            offsets[b] = run;
            run += sums[b];
        }
    }
    grid_barrier(arrived);
    float before = offsets[blockIdx.x];
    for (int base = begin; base < end; base += 64) {
        __syncthreads();
        s[t] = base + t < end ? x[base + t] : 0.0f;
        __syncthreads();
        for (int d = 1; d < 64; d *= 2) {
            const float u = t >= d ? s[t - d] : 0.0f;
            __syncthreads();
            s[t] += u;
            __syncthreads();
        }
        if (base + t < end) y[base + t] = before + s[t];
        before += s[63];
    }
}
