// problem: matmul
// class: schedule
// must: anything but passed
// why: parts of the depth take turns by a semaphore for each tile, as in stream-K; the turn is passed on before the block has written its sum, so the next may add to an old value
// proof: the store to c comes after the release; a second part that reads c between
// assay: temp turn uint32 (ceil_div(m, 16) * ceil_div(n, 16))
// assay: fill turn value=0
// assay: fill c value=0
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16), 2) block=(16, 16) args=(a, b, c, turn, m, n, k)

__global__ void mm(const float* a, const float* b, float* c, unsigned* turn, int m, int n, int k)
{
    const int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    const bool first = threadIdx.x + threadIdx.y == 0;
    unsigned* mine = turn + blockIdx.y * gridDim.x + blockIdx.x;
    const int half = (k + 1) / 2, begin = blockIdx.z * half, end = min(k, begin + half);
    float s = 0.f;
    if (i < m && j < n)
        for (int l = begin; l < end; ++l) s += a[(size_t)i * k + l] * b[(size_t)l * n + j];
    if (first && blockIdx.z)
        for (int spin = 0; spin < 1 << 14 && atomicAdd(mine, 0u) != blockIdx.z; ++spin) __nanosleep(100);
    __syncthreads();
    __threadfence();
    const float old = i < m && j < n ? __ldcg(c + (size_t)i * n + j) : 0.f;
    if (first) atomicAdd(mine, 1u);
    if (i < m && j < n) __stcg(c + (size_t)i * n + j, old + s);
}
