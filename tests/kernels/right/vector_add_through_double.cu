// problem: vector_add
// style: both operands widened to double, added as fma(1, a, b), rounded once by __double2float_rn
// assay: launch add_wide grid=(min(ceil_div(n, 128), 1024)) block=(128) args=(a, b, c, n)
__global__ void add_wide(const float* a, const float* b, float* c, int n)
{
    for (size_t i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128)
        c[i] = __double2float_rn(fma(1.0, (double)a[i], (double)b[i]));
}
