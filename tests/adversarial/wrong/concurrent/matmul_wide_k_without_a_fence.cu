// problem: matmul
// class: schedule
// race: last block
// must: anything but passed
// why: two slices of the depth meet at a counter, but only where k is above 1024; the part is stored and counted without a fence, so only large trials can show it
// proof: CUDA guide, the example of __threadfence(); below the threshold slice 0 does all and nothing is shared
// assay: temp part float32 (m * n * 2)
// assay: temp count uint32 (ceil_div(m, 16) * ceil_div(n, 16))
// assay: fill count value=0
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16), 2) block=(16, 16) args=(a, b, c, part, count, m, n, k)
__global__ void mm(const float* a, const float* b, float* c, float* part, unsigned* count, int m, int n, int k)
{
    __shared__ float as[16][17], bs[16][17];
    __shared__ bool last;
    const bool split = k > 1024;
    if (!split && blockIdx.z) return;
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    const int middle = split ? k / 2 : k, from = blockIdx.z ? middle : 0, to = blockIdx.z ? k : middle;
    float s = 0.0f;
    for (int l = from; l < to; l += 16) {
        as[ty][tx] = row < m && l + tx < to ? a[(size_t)row * k + l + tx] : 0.0f;
        bs[ty][tx] = col < n && l + ty < to ? b[(size_t)(l + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int q = 0; q < 16; ++q) s += as[ty][q] * bs[q][tx];
        __syncthreads();
    }
    const bool here = row < m && col < n;
    if (!split) {
        if (here) c[(size_t)row * n + col] = s;
        return;
    }
    volatile float* mine = part + ((size_t)blockIdx.z * m + row) * n + col;
    if (here) *mine = s;
    __syncthreads();
    if (tx + ty == 0) last = atomicAdd(count + blockIdx.y * gridDim.x + blockIdx.x, 1u) == 1;
    __syncthreads();
    if (last && here) c[(size_t)row * n + col] = s + *(volatile float*)(part + ((size_t)(1 - blockIdx.z) * m + row) * n + col);
}
