// problem: prefix_sum
// assay: temp state int32 (ceil_div(ceil_div(n, 2), 256) + 1)
// assay: temp carry float32 (ceil_div(ceil_div(n, 2), 256) + 1)
// assay: fill state value=0
// assay: fill carry value=0
// assay: launch chain grid=(ceil_div(ceil_div(n, 2), 256)) block=(256) args=(x, y, state, carry, 0, ceil_div(n, 2), 1)
// assay: launch chain grid=(ceil_div(ceil_div(n, 2), 256)) block=(256) args=(x, y, state, carry, ceil_div(n, 2), n, 2)
// style: two launches use the same flags without clearing them: each has its epoch, and tickets go on counting
__global__ void chain(const float* x, float* y, int* state, float* carry, int begin, int end, int epoch)
{
    __shared__ int tile;
    __shared__ float warps[8], before;
    const int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
    if (threadIdx.x == 0) tile = atomicAdd(&state[gridDim.x], 1) - (epoch - 1) * gridDim.x;
    __syncthreads();
    const int t = tile, i = begin + t * 256 + threadIdx.x;
    float v = i < end ? x[i] : 0.0f;
    for (int d = 1; d < 32; d *= 2) {
        const float u = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += u;
    }
    if (lane == 31) warps[w] = v;
    __syncthreads();
    for (int k = 0; k < w; ++k) v += warps[k];
    if (threadIdx.x == 255) {
        float c = 0.0f;
        if (t > 0) {
            while (*(volatile int*)&state[t - 1] < epoch) __nanosleep(40);
            __threadfence();
            c = carry[t - 1];
        } else if (epoch > 1) {
            c = carry[gridDim.x];  // of the launch before
        }
        before = c;
        if (t + 1 < gridDim.x) {
            carry[t] = c + v;
            __threadfence();
            *(volatile int*)&state[t] = epoch;
        } else {
            carry[gridDim.x] = c + v;
        }
    }
    __syncthreads();
    if (i < end) y[i] = v + before;
}
