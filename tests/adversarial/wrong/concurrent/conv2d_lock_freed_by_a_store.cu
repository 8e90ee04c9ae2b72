// problem: conv2d
// class: schedule
// race: lock
// must: anything but passed
// why: a spin lock around a tile of y is taken by atomicExch and freed by a plain store, without a fence on either side: the next holder may read old elements, and the store of the lock may be seen before those of the tile
// proof: atomicExch is relaxed and the store is weak: neither acquire nor release
// assay: temp locks int32 (batch * out_channels * ceil_div(height * width, 64))
// assay: fill locks value=0
// assay: fill y value=0
// assay: launch conv grid=(ceil_div(height * width, 64), batch * out_channels, 2) block=(64) args=(x, weight, y, locks, in_channels, out_channels, height, width)

__global__ void conv(const float* x, const float* weight, float* y, int* locks, int ci, int co, int h, int w)
{
    const int at = blockIdx.x * 64 + threadIdx.x, b = blockIdx.y / co, o = blockIdx.y % co, r = at / w, c = at % w;
    int* lock = locks + (size_t)blockIdx.y * gridDim.x + blockIdx.x;
    float s = 0.0f;
    for (int i = blockIdx.z; at < h * w && i < ci; i += 2)
        for (int dr = -1; dr <= 1; ++dr)
            for (int dc = -1; dc <= 1; ++dc)
                if (r + dr >= 0 && r + dr < h && c + dc >= 0 && c + dc < w)
                    s += x[(((size_t)b * ci + i) * h + r + dr) * w + c + dc] * weight[((size_t)o * ci + i) * 9 + dr * 3 + dc + 4];
    if (threadIdx.x == 0)
        while (atomicExch(lock, 1) == 1) { }
    __syncthreads();
    if (at < h * w) y[(size_t)blockIdx.y * h * w + at] += s;
    __syncthreads();
    if (threadIdx.x == 0) *lock = 0;
}
