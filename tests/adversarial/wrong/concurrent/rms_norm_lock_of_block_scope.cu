// problem: rms_norm
// class: schedule
// race: scope
// must: anything but passed
// why: blocks add squares under a lock taken by atomicCAS_block and freed by atomicExch_block: exclusive within a block only, so two blocks may hold it at once
// proof: CUDA guide, atomic functions: _block is atomic for threads of the same block
// assay: temp squares float32 (rows)
// assay: temp lock int32 (rows)
// assay: fill squares value=0
// assay: fill lock value=0
// assay: launch add grid=(rows, 2) block=(32) args=(x, squares, lock, cols)
// assay: launch scale grid=(rows) block=(96) args=(x, weight, squares, y, eps, cols)

__global__ void add(const float* x, float* squares, int* lock, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float s = 0.0f;
    for (int c = blockIdx.y * 32 + threadIdx.x; c < cols; c += 64) s += in[c] * in[c];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x == 0) {
        while (atomicCAS_block(&lock[blockIdx.x], 0, 1)) { }
        __threadfence();
        squares[blockIdx.x] += s;
        __threadfence();
        atomicExch_block(&lock[blockIdx.x], 0);
    }
}

__global__ void scale(const float* x, const float* weight, const float* squares, float* y, float eps, int cols)
{
    const float r = rsqrtf(squares[blockIdx.x] / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 96) y[(size_t)blockIdx.x * cols + c] = x[(size_t)blockIdx.x * cols + c] * r * weight[c];
}
