// problem: matvec
// class: schedule
// race: last block
// must: anything but passed
// why: the block with the highest number takes itself for the one that ends last, and adds the parts of the others without waiting for them
// proof: blocks run in any order and at once (CUDA guide, thread hierarchy); a counter is missing
// assay: temp part float32 (m * 2)
// assay: launch mv grid=(ceil_div(m, 8), 2) block=(32, 8) args=(a, x, y, part, m, k)

__global__ void mv(const float* a, const float* x, float* y, float* part, int m, int k)
{
    const int row = blockIdx.x * 8 + threadIdx.y, lane = threadIdx.x, half = (k + 1) / 2;
    if (row >= m) return;
    float s = 0.0f;
    for (int j = blockIdx.y * half + lane; j < (blockIdx.y ? k : half); j += 32) s += a[(size_t)row * k + j] * x[j];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (lane) return;
    __stcg(&part[blockIdx.y * m + row], s);
    __threadfence();
    if (blockIdx.y == gridDim.y - 1) y[row] = __ldcg(&part[row]) + __ldcg(&part[m + row]);
}
