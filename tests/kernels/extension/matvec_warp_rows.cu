// problem: matvec
// style: a warp for each row, occupancy asked for once and kept
#include <torch/extension.h>

__global__ void __launch_bounds__(256) matvec(const float* a, const float* x, float* y, int m, int k)
{
    int lane = threadIdx.x & 31, warps = gridDim.x * (blockDim.x >> 5);
    for (int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); row < m; row += warps) {
        float sum = 0.f;
        for (int i = lane; i < k; i += 32) sum += a[(size_t)row * k + i] * x[i];
        for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(~0u, sum, offset);
        if (lane == 0) y[row] = sum;
    }
}

torch::Tensor forward(torch::Tensor a, torch::Tensor x)
{
    static int blocks = 0;
    if (!blocks) {
        cudaDeviceProp properties;
        cudaGetDeviceProperties(&properties, 0);
        int each = 1;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, matvec, 256, 0);
        blocks = std::max(1, each) * properties.multiProcessorCount;
    }
    const int m = a.size(0);
    auto y = torch::empty({m}, a.options());
    matvec<<<std::min(blocks, (m + 7) / 8), 256>>>(a.data_ptr<float>(), x.data_ptr<float>(), y.data_ptr<float>(), m, a.size(1));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
