// problem: row_sum
// assay: temp part float32 (rows * 4)
// assay: temp arrived uint32 (rows)
// assay: fill arrived value=0
// assay: launch parts grid=(rows, 4) block=(64) args=(x, y, part, arrived, rows, cols)
// assay: launch parts grid=(rows, 4) block=(64) args=(x, y, part, arrived, rows, cols)
// style: four blocks a row, the last adds up; atomicInc wraps, so that the same counters serve a second launch
__global__ void parts(const float* x, float* y, float* part, unsigned* arrived, int rows, int cols)
{
    __shared__ float other;
    const int row = blockIdx.x, p = blockIdx.y;
    float s = 0.0f;
    for (int c = p * 64 + threadIdx.x; c < cols; c += 256) s += x[(size_t)row * cols + c];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x == 32) other = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        part[row * 4 + p] = s + other;
        __threadfence();
        if (atomicInc(&arrived[row], 3u) == 3u) {
            __threadfence();
            y[row] = part[row * 4] + part[row * 4 + 1] + part[row * 4 + 2] + part[row * 4 + 3];
        }
    }
}
