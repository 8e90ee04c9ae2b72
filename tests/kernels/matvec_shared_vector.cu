// problem: matvec
// style: slices of the vector in shared memory, one thread a row, __syncthreads_or ends nothing early
// assay: launch matvec_sliced grid=(ceil_div(m, 64)) block=(64) args=(a, x, y, m, k)

__global__ void matvec_sliced(const float* a, const float* x, float* y, int m, int k)
{
    __shared__ float slice[256];
    const int row = blockIdx.x * 64 + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += 256) {
        int any = 0;
        for (int j = threadIdx.x; j < 256; j += 64) {
            slice[j] = start + j < k ? x[start + j] : 0.0f;
            any |= slice[j] != 0.0f;
        }
        // A slice of zeros adds nothing (inputs are finite), and every thread learns of it at the barrier.
        if (__syncthreads_or(any) && row < m) {
            float part = 0.0f;
            const int count = min(256, k - start);
            for (int j = 0; j < count; ++j) {
                part += a[(size_t)row * k + start + j] * slice[j];
            }
            sum += part;
        }
        __syncthreads();
    }
    if (row < m) {
        y[row] = sum;
    }
}
