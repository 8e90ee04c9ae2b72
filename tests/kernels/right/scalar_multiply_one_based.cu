// problem: scalar_multiply
// assay: launch scale_fortran grid=(ceil_div(n, 256)) block=(256) args=(x, y, alpha, n)
// style: translated from Fortran: indices from 1, names in capitals, arrays shifted by one in a macro
#define X(I) x[(I) - 1]
#define Y(I) y[(I) - 1]

extern "C" __global__ void scale_fortran(const float *x, float *y, const float ALPHA, const int N)
{
    int I;
    /* I = (BLOCKIDX%X - 1) * BLOCKDIM%X + THREADIDX%X */
    I = blockIdx.x * blockDim.x + threadIdx.x + 1;
    if (I <= N) Y(I) = ALPHA * X(I);
}
