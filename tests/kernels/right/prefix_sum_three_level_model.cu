// problem: prefix_sum
// assay: temp block_sums float32 (ceil_div(n, 1024))
// assay: temp super_sums float32 (ceil_div(n, 1024 * 1024))
// assay: launch block_scan grid=(ceil_div(n, 1024)) block=(1024) args=(x, y, block_sums, n)
// assay: launch block_scan grid=(ceil_div(n, 1024 * 1024)) block=(1024) args=(block_sums, block_sums, super_sums, ceil_div(n, 1024))
// assay: launch serial_scan grid=(1) block=(1) args=(super_sums, ceil_div(n, 1024 * 1024))
// assay: launch add_sums grid=(ceil_div(n, 1024 * 1024)) block=(1024) args=(block_sums, super_sums, ceil_div(n, 1024))
// assay: launch add_sums grid=(ceil_div(n, 1024)) block=(1024) args=(y, block_sums, n)
// style: a chat model's multi-level inclusive scan: warp_inclusive_scan, block scan, block sums, a serial third level
__device__ __forceinline__ float warp_inclusive_scan(float val, int lane) {
    #pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        float n = __shfl_up_sync(0xffffffff, val, offset);
        if (lane >= offset) val += n;
    }
    return val;
}

__global__ void block_scan(const float* input, float* output, float* block_sums, int N) {
    __shared__ float warp_sums[32];
    int tid = threadIdx.x;
    int gid = blockIdx.x * blockDim.x + tid;
    int lane = tid & 31;
    int warp_id = tid >> 5;

    float val = (gid < N) ? input[gid] : 0.0f;
    val = warp_inclusive_scan(val, lane);
    if (lane == 31) warp_sums[warp_id] = val;
    __syncthreads();

    // The first warp scans the warp sums
    if (warp_id == 0) {
        float w = warp_sums[lane];
        w = warp_inclusive_scan(w, lane);
        warp_sums[lane] = w;
    }
    __syncthreads();

    if (warp_id > 0) val += warp_sums[warp_id - 1];
    if (gid < N) output[gid] = val;
    if (tid == blockDim.x - 1) block_sums[blockIdx.x] = val;
}

__global__ void serial_scan(float* sums, int N) {
    for (int i = 1; i < N; i++) sums[i] += sums[i - 1];
}

__global__ void add_sums(float* data, const float* sums, int N) {
    int gid = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x > 0 && gid < N) data[gid] += sums[blockIdx.x - 1];
}
