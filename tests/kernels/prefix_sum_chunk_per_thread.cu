// problem: prefix_sum
// style: each of 256 threads sums its own chunk in double, one thread scans 256 totals, each writes its chunk
// assay: launch scan_chunks grid=(1) block=(256) args=(x, y, n, ceil_div(n, 256))

__global__ void scan_chunks(const float* x, float* y, int n, int chunk)
{
    __shared__ double before[257];
    const int first = threadIdx.x * chunk;
    const int last = min(n, first + chunk);
    double sum = 0.0;
    for (int i = first; i < last; ++i) {
        sum += x[i];
    }
    before[threadIdx.x + 1] = sum;
    if (threadIdx.x == 0) {
        before[0] = 0.0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t <= 256; ++t) {
            before[t] += before[t - 1];
        }
    }
    __syncthreads();
    sum = before[threadIdx.x];
    for (int i = first; i < last; ++i) {
        sum += x[i];
        y[i] = (float)sum;
    }
}
