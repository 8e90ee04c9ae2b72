// problem: transpose
// class: schedule
// race: fence
// must: anything but passed
// why: a warp fills a tile and its lane 0 fences and raises the flag, without __syncwarp(): the fence orders lane 0's own stores, while other lanes may not have stored yet
// proof: CUDA guide, independent thread scheduling: lanes are ordered by __syncwarp() only
// assay: launch tr grid=(ceil_div(cols, 32), min(ceil_div(rows, 32), 1024)) block=(64) args=(x, y, rows, cols)

__global__ void tr(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[32][33];
    __shared__ volatile int stage;
    const int lane = threadIdx.x & 31;
    if (threadIdx.x == 0) stage = 0;
    __syncthreads();
    int k = 0;
    for (int t = blockIdx.y; t * 32 < rows; t += gridDim.y, ++k) {
        const int r0 = t * 32, c0 = blockIdx.x * 32;
        if (threadIdx.x < 32) {
            for (int i = 0; i < 32; ++i)
                if (r0 + lane < rows && c0 + i < cols) tile[lane][i] = x[(size_t)(r0 + lane) * cols + c0 + i];
            if (lane == 0) {
                __threadfence_block();
                stage = k + 1;
            }
        } else {
            while (stage != k + 1) { }
            __threadfence_block();
            for (int i = 0; i < 32; ++i)
                if (r0 + lane < rows && c0 + i < cols) y[(size_t)(c0 + i) * rows + r0 + lane] = tile[lane][i];
        }
        __syncthreads();
    }
}
