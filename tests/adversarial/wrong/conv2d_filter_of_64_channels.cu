// problem: conv2d
// class: sizes
// must: anything but passed
// why: a filter is kept in shared memory for 64 input channels (the timed number), and more channels are left out of the sum
// proof: assay grade --size in_channels=65 --size batch=1 --size out_channels=2 --size height=9 --size width=9 refuses it
// assay: launch conv3x3 grid=(ceil_div(height * width, 128), batch * out_channels) block=(128) args=(x, weight, y, in_channels, out_channels, height, width)

__global__ void conv3x3(const float* x, const float* weight, float* y, int C, int K, int H, int W)
{
    enum { CMAX = 64 };
    __shared__ float f[CMAX * 9];
    const int b = blockIdx.y / K, o = blockIdx.y % K, channels = C > CMAX ? CMAX : C;
    for (int i = threadIdx.x; i < channels * 9; i += blockDim.x) f[i] = weight[(size_t)o * C * 9 + i];
    __syncthreads();
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= H * W) return;
    const int r = p / W, c = p % W;
    float acc = 0;
    for (int i = 0; i < channels; i++) {
        const float* plane = x + ((size_t)b * C + i) * H * W;
        const float* g = f + i * 9;
#pragma unroll
        for (int s = -1; s <= 1; s++)
#pragma unroll
            for (int t = -1; t <= 1; t++)
                if ((unsigned)(r + s) < (unsigned)H && (unsigned)(c + t) < (unsigned)W)
                    acc += plane[(r + s) * W + c + t] * g[(s + 1) * 3 + t + 1];
    }
    y[((size_t)b * K + o) * H * W + p] = acc;
}
