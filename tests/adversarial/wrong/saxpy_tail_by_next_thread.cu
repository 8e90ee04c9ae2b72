// problem: saxpy
// class: sizes
// must: anything but passed
// why: the last n % 4 elements are done by the thread after the last float4; with the grid capped at 2,048 blocks there is no such thread once n > 2^21, and up to three elements stay unwritten (the timed size is a multiple of 4)
// proof: assay grade --size n=2097155 refuses it
// assay: launch saxpy_vec grid=(min(n // 1024 + 1, 2048)) block=(256) args=(alpha, x, y, out, n)

__global__ void saxpy_vec(float a, const float4 *X, const float4 *Y, float4 *Z, int n)
{
    int tid = blockDim.x * blockIdx.x + threadIdx.x, nvec = n >> 2;
    for (int i = tid; i < nvec; i += blockDim.x * gridDim.x) {
        float4 p = X[i], q = Y[i];
        q.x = fmaf(a, p.x, q.x); q.y = fmaf(a, p.y, q.y);
        q.z = fmaf(a, p.z, q.z); q.w = fmaf(a, p.w, q.w);
        Z[i] = q;
    }
    if (tid == nvec) {  /* remainder */
        const float *xs = (const float *)X, *ys = (const float *)Y;
        for (int i = nvec << 2; i < n; i++) ((float *)Z)[i] = fmaf(a, xs[i], ys[i]);
    }
}
