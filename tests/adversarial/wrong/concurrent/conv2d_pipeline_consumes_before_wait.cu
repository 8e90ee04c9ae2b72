// problem: conv2d
// class: schedule
// race: barrier
// must: anything but passed
// why: nine weights a channel come by cuda::memcpy_async, a channel ahead; consumer_wait_prior<1> waits for the thread's own copies, and no barrier follows, so weights that other threads' copies bring are read too early
// proof: cuda::pipeline of thread scope and PTX cp.async.wait_group: completion is made visible to the executing thread only
// assay: launch conv grid=(ceil_div(height * width, 64), batch * out_channels) block=(64) args=(x, weight, y, in_channels, out_channels, height, width)
#include <cuda/pipeline>

__global__ void conv(const float* x, const float* weight, float* y, int in_channels, int out_channels, int height, int width)
{
    __shared__ float w[3][9];
    auto pipe = cuda::make_pipeline();
    const int plane = blockIdx.y, b = plane / out_channels, o = plane % out_channels, e = blockIdx.x * 64 + threadIdx.x, r = e / width, c = e % width;
    auto fetch = [&](int i) {
        pipe.producer_acquire();
        if (i < in_channels && threadIdx.x < 9) cuda::memcpy_async(&w[i % 3][threadIdx.x], weight + (o * in_channels + i) * 9 + threadIdx.x, sizeof(float), pipe);
        pipe.producer_commit();
    };
    fetch(0);
    float s = 0.0f;
    for (int i = 0; i < in_channels; ++i) {
        fetch(i + 1);
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        for (int u = 0; u < 9; ++u) {
            const int rr = r + u / 3 - 1, cc = c + u % 3 - 1;
            if (e < height * width && rr >= 0 && rr < height && cc >= 0 && cc < width)
                s += x[((size_t)(b * in_channels + i) * height + rr) * width + cc] * w[i % 3][u];
        }
        pipe.consumer_release();
    }
    if (e < height * width) y[(size_t)plane * height * width + e] = s;
}
