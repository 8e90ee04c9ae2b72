// problem: saxpy
// assay: copy y out
// assay: launch saxpy_ grid=(ceil_div(n, 1024)) block=(128) args=(n, alpha, x, 1, out, 1)
// style: the reference BLAS by hand: increments, an early return for alpha == 0, groups of four after the rest mod 4
__global__ void saxpy_(int n, float sa, const float* sx, int incx, float* sy, int incy)
{
    if (n <= 0 || sa == 0.0f) return;
    const int per_thread = 8;
    int begin = (blockIdx.x * blockDim.x + threadIdx.x) * per_thread;
    int end = min(n, begin + per_thread);
    if (begin >= end) return;
    int ix = incx < 0 ? (1 - n + begin) * incx : begin * incx;
    int iy = incy < 0 ? (1 - n + begin) * incy : begin * incy;
    int rest = (end - begin) % 4;
    for (int i = 0; i < rest; ++i) {
        sy[iy] = sy[iy] + sa * sx[ix];
        ix += incx;
        iy += incy;
    }
    for (int i = begin + rest; i < end; i += 4) {
        sy[iy] = sy[iy] + sa * sx[ix];
        sy[iy + incy] = sy[iy + incy] + sa * sx[ix + incx];
        sy[iy + 2 * incy] = sy[iy + 2 * incy] + sa * sx[ix + 2 * incx];
        sy[iy + 3 * incy] = sy[iy + 3 * incy] + sa * sx[ix + 3 * incx];
        ix += 4 * incx;
        iy += 4 * incy;
    }
}
