// problem: matvec
// style: a block a row; double accumulation; __syncthreads_count tells how many warps' worth of terms there are
// assay: launch matvec_block grid=(m) block=(96) args=(a, x, y, m, k)

__global__ void matvec_block(const float* a, const float* x, float* y, unsigned m, unsigned long long k)
{
    __shared__ double sums[96];
    double sum = 0.0;
    for (unsigned long long j = threadIdx.x; j < k; j += 96) {
        sum += (double)a[blockIdx.x * k + j] * x[j];
    }
    sums[threadIdx.x] = sum;
    const int busy = __syncthreads_count(threadIdx.x < k);
    if (threadIdx.x == 0) {
        for (int t = 1; t < busy; ++t) {
            sum += sums[t];
        }
        y[blockIdx.x] = (float)sum;
    }
}
