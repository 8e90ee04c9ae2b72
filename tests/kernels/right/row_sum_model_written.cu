// problem: row_sum
// assay: launch sum_reduction_kernel grid=(rows) block=(256) shared=(256 * 4) args=(x, y, 1, rows, cols)
// style: a chat model's sum over a dimension for a benchmark of kernels: batch, outer and reduce sizes, warpReduceSum
__device__ __forceinline__ float warpReduceSum(float val) {
    #pragma unroll
    for (int offset = warpSize / 2; offset > 0; offset /= 2) {
        val += __shfl_down_sync(0xffffffff, val, offset);
    }
    return val;
}

__global__ void sum_reduction_kernel(const float* input, float* output, int batch_size, int outer_size, int reduce_size) {
    extern __shared__ float shared_mem[];
    int idx = blockIdx.x;
    int b = idx / outer_size;
    int o = idx % outer_size;
    const float* in = input + (static_cast<size_t>(b) * outer_size + o) * reduce_size;

    float sum = 0.0f;
    // Grid-stride style loop over the reduction dimension
    for (int i = threadIdx.x; i < reduce_size; i += blockDim.x) {
        sum += in[i];
    }
    sum = warpReduceSum(sum);

    int lane = threadIdx.x & 31;
    int wid = threadIdx.x >> 5;
    if (lane == 0) shared_mem[wid] = sum;
    __syncthreads();

    sum = (threadIdx.x < blockDim.x / 32) ? shared_mem[lane] : 0.0f;
    if (wid == 0) sum = warpReduceSum(sum);
    if (threadIdx.x == 0) output[idx] = sum;
}
