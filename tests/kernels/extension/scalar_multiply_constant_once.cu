// problem: scalar_multiply
// style: a table in constant memory that is brought once, by a static flag
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__constant__ int steps[4];

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int start = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (start + steps[i] < n) y[start + steps[i]] = alpha * x[start + steps[i]];
}

torch::Tensor forward(torch::Tensor x, double alpha)
{
    static bool ready = false;
    if (!ready) {
        const int host[4] = {0, 1, 2, 3};
        TORCH_CHECK(cudaMemcpyToSymbol(steps, host, sizeof host) == cudaSuccess);
        ready = true;
    }
    auto y = torch::empty_like(x);
    const int n = x.numel(), threads = 128;
    scale<<<(n + 4 * threads - 1) / (4 * threads), threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), alpha, n);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
