// problem: saxpy
// style: two overloads in a namespace; the plan names one by its full signature
// assay: launch blas::axpy(float const*, float const*, float*, float, unsigned long) grid=(ceil_div(n, 192)) block=(192) args=(x, y, out, alpha, n)

namespace blas {

__global__ void axpy(const double* x, const double* y, double* out, double alpha, size_t n)
{
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = alpha * x[i] + y[i];
    }
}

__global__ void axpy(const float* x, const float* y, float* out, float alpha, size_t n)
{
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = alpha * x[i] + y[i];
    }
}

}  // namespace blas
