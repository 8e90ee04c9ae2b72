// problem: matvec
// assay: launch gemv_naive grid=(ceil_div(m, 128)) block=(128) args=(a, x, y, m, k)
// style: one thread a row as in a first lecture, but with Kahan's compensation for long rows
__global__ void gemv_naive(const float* A, const float* v, float* out, int M, int K)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M) return;
    float sum = 0.0f, c = 0.0f;
    for (int j = 0; j < K; ++j) {
        float t1 = __fmaf_rn(A[row * K + j], v[j], -c);
        float t2 = __fadd_rn(sum, t1);
        c = __fadd_rn(__fadd_rn(t2, -sum), -t1);
        sum = t2;
    }
    out[row] = sum;
}
