// problem: swiglu
// assay: launch sw grid=(min(ceil_div(rows * cols, 512), 200)) block=(128) args=(gate, up, y, rows * cols)
// style: cuda::pipeline of thread scope over three stages, cuda::memcpy_async of floats, pipeline_consumer_wait_prior with a compile-time count
#include <cuda/pipeline>

__global__ void sw(const float* gate, const float* up, float* y, int n)
{
    __shared__ float g[3][128], u[3][128];
    auto pipe = cuda::make_pipeline();
    const int step = gridDim.x * 128, t = threadIdx.x, begin = blockIdx.x * 128 + t;
    auto fetch = [&](int i, int s) {
        pipe.producer_acquire();
        if (i < n) {
            cuda::memcpy_async(&g[s][t], gate + i, sizeof(float), pipe);
            cuda::memcpy_async(&u[s][t], up + i, sizeof(float), pipe);
        }
        pipe.producer_commit();
    };
    fetch(begin, 0);
    fetch(begin + step, 1);
    for (int i = begin, s = 0; i < n; i += step, s = (s + 1) % 3) {
        fetch(i + 2 * step, (s + 2) % 3);
        cuda::pipeline_consumer_wait_prior<2>(pipe);
        const float v = g[s][t];
        y[i] = v / (1.0f + expf(-v)) * u[s][t];
        pipe.consumer_release();
    }
}
