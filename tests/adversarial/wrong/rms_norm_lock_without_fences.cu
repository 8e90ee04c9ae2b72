// problem: rms_norm
// class: schedule
// must: anything but passed
// why: blocks add a part of a row's squares under a lock that neither acquires nor releases: the plain read may be old and the plain write may be seen after the lock is free
// proof: CUDA guide, memory fence functions: __threadfence() is missing after the lock is taken and before it is freed
// assay: temp squares float32 (rows)
// assay: temp lock int32 (rows)
// assay: fill squares value=0
// assay: fill lock value=0
// assay: launch add_squares grid=(2, rows) block=(64) args=(x, squares, lock, cols)
// assay: launch scale grid=(rows) block=(128) args=(x, weight, squares, y, eps, cols)

__global__ void add_squares(const float* x, float* squares, int* lock, int cols)
{
    __shared__ float other;
    const float* in = x + (size_t)blockIdx.y * cols;
    float s = 0.f;
    for (int c = blockIdx.x * 64 + threadIdx.x; c < cols; c += 128) s += in[c] * in[c];
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if (threadIdx.x == 32) other = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        while (atomicCAS(&lock[blockIdx.y], 0, 1) != 0) { }
        squares[blockIdx.y] += s + other;
        atomicExch(&lock[blockIdx.y], 0);
    }
}

__global__ void scale(const float* x, const float* weight, const float* squares, float* y, float eps, int cols)
{
    const float r = rsqrtf(squares[blockIdx.x] / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 128)
        y[(size_t)blockIdx.x * cols + c] = x[(size_t)blockIdx.x * cols + c] * r * weight[c];
}
