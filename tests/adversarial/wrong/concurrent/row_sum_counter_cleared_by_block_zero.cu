// problem: row_sum
// class: schedule
// race: last block
// must: anything but passed
// why: the counter of a row is not cleared before the launch but by its first part when that starts: parts that count before lose their count, and nobody is the last
// proof: blocks run in any order; part 1 that counts before part 0 begins
// assay: temp part float32 (rows * 2)
// assay: temp count uint32 (rows)
// assay: launch parts grid=(2, min(rows, 32768)) block=(64) args=(x, y, part, count, rows, cols)

__global__ void parts(const float* x, float* y, float* part, unsigned* count, int rows, int cols)
{
    __shared__ float other;
    const int p = blockIdx.x;
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        if (p == 0 && threadIdx.x == 0) atomicExch(&count[row], 0u);
        float s = 0.0f;
        for (int c = 64 * p + threadIdx.x; c < cols; c += 128) s += x[(size_t)row * cols + c];
        for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
        if (threadIdx.x == 32) other = s;
        __syncthreads();
        if (threadIdx.x == 0) {
            part[2 * row + p] = s + other;
            __threadfence();
            if (atomicAdd(&count[row], 1u) == 1) {
                __threadfence();
                y[row] = part[2 * row] + part[2 * row + 1];
            }
        }
        __syncthreads();
    }
}
