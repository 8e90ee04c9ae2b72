// problem: conv2d
// class: schedule
// race: barrier
// must: anything but passed
// why: a cooperative kernel stores the sums of the even channels in y and adds those of the odd channels in a second phase, in which blocks take other elements: grid.sync() between the phases is missing
// proof: the second phase may read an element before the block of the first phase has stored it
// assay: fill y value=0
// assay: launch conv grid=(24) block=(128) cooperative args=(x, weight, y, batch, in_channels, out_channels, height, width)

__device__ float channels(const float* x, const float* weight, long long e, int first, int ci, int co, int h, int w)
{
    const int c = e % w, r = e / w % h, o = e / w / h % co, b = e / w / h / co;
    float s = 0.0f;
    for (int i = first; i < ci; i += 2)
        for (int k = 0; k < 9; ++k) {
            const int rr = r + k / 3 - 1, cc = c + k % 3 - 1;
            if (rr < 0 || rr >= h || cc < 0 || cc >= w) continue;
            s += x[(((size_t)b * ci + i) * h + rr) * w + cc] * weight[((size_t)o * ci + i) * 9 + k];
        }
    return s;
}

__global__ void conv(const float* x, const float* weight, float* y, int batch, int ci, int co, int h, int w)
{
    const long long all = (long long)batch * co * h * w, step = gridDim.x * 128LL;
    for (long long e = blockIdx.x * 128LL + threadIdx.x; e < all; e += step) y[e] = channels(x, weight, e, 0, ci, co, h, w);
    __syncthreads();
    const long long turned = (blockIdx.x + gridDim.x - 1) % gridDim.x;
    for (long long e = turned * 128LL + threadIdx.x; e < all; e += step) y[e] += channels(x, weight, e, 1, ci, co, h, w);
}
