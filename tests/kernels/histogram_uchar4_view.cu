// problem: histogram
// style: each value read as uchar4, of which the first byte counts; warp-private shared counters
// assay: fill counts value=0
// assay: launch count_bytes grid=(min(ceil_div(n, 512), 48)) block=(128) args=(values, counts, n)

__global__ void count_bytes(const uchar4* values, int* counts, int n)
{
    __shared__ unsigned short local[4][256];
    for (int bin = threadIdx.x; bin < 1024; bin += 128) {
        local[bin >> 8][bin & 255] = 0;
    }
    __syncthreads();
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    int seen = 0;
    for (int start = blockIdx.x * 128 + warp * 32; start < n; start += gridDim.x * 128) {
        const bool inside = start + lane < n;
        const int value = inside ? values[start + lane].x : -1;
        const unsigned equal = __match_any_sync(0xffffffffu, value);
        if (inside && lane == __ffs(equal) - 1) {
            local[warp][value] += __popc(equal);
        }
        __syncwarp();
        seen += 32;
        if (seen > 60000) {  // before 16 bits run over
            for (int bin = lane; bin < 256; bin += 32) {
                atomicAdd(counts + bin, (int)local[warp][bin]);
                local[warp][bin] = 0;
            }
            __syncwarp();
            seen = 0;
        }
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += 128) {
        const int sum = local[0][bin] + local[1][bin] + local[2][bin] + local[3][bin];
        if (sum > 0) {
            atomicAdd(counts + bin, sum);
        }
    }
}
