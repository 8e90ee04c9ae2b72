// problem: softmax
// attack: results of 16 warps in an array of 8 run over into the array behind it
// expect: passed
// because: the array behind it is not in use then; nothing promises that it lies there
// warns: array_overrun
// assay: launch softmax grid=(rows) block=(512) args=(x, y, rows, cols)

__global__ void softmax(const float* x, float* y, int rows, int cols)
{
    __shared__ float red[8];
    __shared__ float inverse[16];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float* from = x + (size_t)blockIdx.x * cols;
    float most = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += 512) most = fmaxf(most, from[c]);
    for (int o = 16; o; o >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
    if (lane == 0) red[warp] = most;  // HERE
    __syncthreads();
    most = red[0];
    for (int i = 1; i < 16; i++) most = fmaxf(most, red[i]);
    __syncthreads();
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 512) sum += expf(from[c] - most);
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (lane == 0) red[warp] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int i = 0; i < 16; i++) sum += red[i];
    __syncthreads();
    if (lane == 0) inverse[warp] = 1.0f / sum;
    __syncwarp();
    for (int c = threadIdx.x; c < cols; c += 512) y[(size_t)blockIdx.x * cols + c] = expf(from[c] - most) * inverse[warp];
}
