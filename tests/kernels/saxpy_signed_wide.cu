// problem: saxpy
// style: negative 128-bit numbers divided and taken apart again; a grid-stride loop counts in them
// assay: launch saxpy grid=(min(ceil_div(n, 128), 512)) block=(128) args=(alpha, x, y, out, n)

__global__ void saxpy(float alpha, const float* x, const float* y, float* out, int n)
{
    const __int128 unit = -((__int128)1 << 70) - 12345;
    const __int128 stride = unit * (gridDim.x * 128);
    for (__int128 at = unit * (blockIdx.x * 128 + threadIdx.x); at > unit * n; at += stride) {
        const int i = (int)(at / unit);
        out[i] = at % unit == 0 ? alpha * x[i] + y[i] : 0.0f;
    }
}
