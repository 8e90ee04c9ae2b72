// problem: gelu
// style: everything in double precision, rounded once
// assay: launch gelu_f64 grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)

__global__ void gelu_f64(const float* x, float* y, unsigned long long n)
{
    const unsigned long long i = blockIdx.x * 128ull + threadIdx.x;
    if (i < n) {
        const double v = x[i];
        y[i] = (float)(0.5 * v * erfc(-v * 0.70710678118654752440));
    }
}
