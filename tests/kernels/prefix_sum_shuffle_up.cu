// problem: prefix_sum
// style: one block walks the array with a running carry; scans by __shfl_up_sync, barriers in a uniform loop
// assay: launch scan_walk grid=(1) block=(1024) args=(x, y, n)

__global__ void scan_walk(const float* x, float* y, int n)
{
    __shared__ double warp_totals[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    double carry = 0.0;
    for (int start = 0; start < n; start += 1024) {
        const int i = start + threadIdx.x;
        double sum = i < n ? x[i] : 0.0f;
        for (int offset = 1; offset < 32; offset <<= 1) {
            const double before = __shfl_up_sync(0xffffffffu, sum, offset);
            if (lane >= offset) {
                sum += before;
            }
        }
        if (lane == 31) {
            warp_totals[warp] = sum;
        }
        __syncthreads();
        if (warp == 0) {
            double total = warp_totals[lane];
            for (int offset = 1; offset < 32; offset <<= 1) {
                const double before = __shfl_up_sync(0xffffffffu, total, offset);
                if (lane >= offset) {
                    total += before;
                }
            }
            warp_totals[lane] = total;
        }
        __syncthreads();
        sum += carry + (warp > 0 ? warp_totals[warp - 1] : 0.0);
        if (i < n) {
            y[i] = (float)sum;
        }
        carry += warp_totals[31];
        __syncthreads();
    }
}
