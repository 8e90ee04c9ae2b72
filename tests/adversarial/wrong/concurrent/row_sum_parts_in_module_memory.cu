// problem: row_sum
// class: schedule
// race: fence
// must: anything but passed
// why: parts and counter are __device__ variables of the module; the part is stored and counted without any fence, and the block that comes second reads it behind none
// proof: CUDA guide: __device__ variables are global memory, and relaxed atomics order nothing for other words
// assay: launch rs grid=(2, min(rows, 60000)) block=(64) args=(x, y, rows, cols)
__device__ float part[70000][2];
__device__ unsigned came[70000];

__global__ void rs(const float* x, float* y, int rows, int cols)
{
    __shared__ float other;
    for (size_t row = blockIdx.y; row < rows; row += gridDim.y) {
        float s = 0.0f;
        for (int c = blockIdx.x * 64 + threadIdx.x; c < cols; c += 128) s += x[row * cols + c];
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        if (threadIdx.x == 32) other = s;
        __syncthreads();
        if (threadIdx.x == 0) {
            part[row][blockIdx.x] = s + other;
            if (atomicInc(&came[row], 1u) == 1u) y[row] = part[row][0] + part[row][1];
        }
        __syncthreads();
    }
}
