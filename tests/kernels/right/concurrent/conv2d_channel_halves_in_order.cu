// problem: conv2d
// assay: temp turn int32 (batch * out_channels * ceil_div(height * width, 128))
// assay: temp ticket uint32 (1)
// assay: fill turn value=0
// assay: fill ticket value=0
// assay: launch conv grid=(2 * batch * out_channels * ceil_div(height * width, 128)) block=(128) args=(x, weight, y, turn, ticket, in_channels, out_channels, height, width)
// style: the second half of the channels waits for the first by a turnstile (__threadfence around a volatile int), tickets first
__global__ void conv(const float* x, const float* weight, float* y, volatile int* turn, unsigned* ticket, int ci, int co, int h, int w)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const unsigned group = drawn / 2, half = drawn % 2, pieces = (h * w + 127) / 128, image = group / pieces;
    const int b = image / co, o = image % co, at = group % pieces * 128 + threadIdx.x, r = at / w, c = at % w;
    const bool here = at < h * w;
    const int mid = (ci + 1) / 2;
    float s = 0.0f;
    for (int i = half ? mid : 0; i < (half ? ci : mid); ++i)
        for (int k = 0; here && k < 9; ++k) {
            const int rr = r + k / 3 - 1, cc = c + k % 3 - 1;
            if (rr >= 0 && rr < h && cc >= 0 && cc < w) s += x[(((size_t)b * ci + i) * h + rr) * w + cc] * weight[((size_t)o * ci + i) * 9 + k];
        }
    float* to = y + ((size_t)b * co + o) * h * w + at;
    if (half == 0) {
        if (here) *to = s;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            turn[group] = 1;
        }
    } else {
        if (threadIdx.x == 0) {
            while (turn[group] != 1) { }
            __threadfence();
        }
        __syncthreads();
        if (here) *to += s;
    }
}
