// problem: saxpy
// class: schedule
// race: barrier
// must: anything but passed
// why: tiles go through one shared buffer in turned order; the barrier behind the reads stands in every second round only, to save time
// proof: in the other rounds a faster warp overwrites what a slower one has still to read
// assay: launch sx grid=(min(ceil_div(n, 256), 300)) block=(256) args=(x, y, out, alpha, n)

__global__ void sx(const float* x, const float* y, float* out, float alpha, int n)
{
    __shared__ float tile[256];
    const int t = threadIdx.x;
    int round = 0;
    for (long long at = blockIdx.x * 256LL; at < n; at += gridDim.x * 256LL, ++round) {
        tile[t] = at + t < n ? fmaf(alpha, x[at + t], y[at + t]) : 0.0f;
        __syncthreads();
        const int from = t ^ 255;
        if (at + from < n) out[at + from] = tile[from];
        if (round & 1) __syncthreads();
    }
}
