// problem: reduce_sum
// style: a counter that is zeroed once and that the last block resets
#include <torch/extension.h>

__global__ void sum_last_block(const float* __restrict__ x, float* partial, unsigned* arrived, float* total, int n)
{
    __shared__ float held[256];
    __shared__ bool last;
    float mine = 0.f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) mine += x[i];
    held[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (threadIdx.x < half) held[threadIdx.x] += held[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = held[0];
        __threadfence();
        last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    if (threadIdx.x == 0) {
        __threadfence();
        float all = 0.f;
        for (unsigned b = 0; b < gridDim.x; b++) all += __ldcg(partial + b);
        *total = all;
        *arrived = 0;
    }
}

torch::Tensor forward(torch::Tensor x)
{
    constexpr int BLOCKS = 64;
    static torch::Tensor arrived = torch::zeros({1}, x.options().dtype(torch::kInt32));
    static torch::Tensor partial = torch::empty({BLOCKS}, x.options());
    auto total = torch::empty({1}, x.options());
    sum_last_block<<<BLOCKS, 256>>>(x.data_ptr<float>(), partial.data_ptr<float>(),
                                    reinterpret_cast<unsigned*>(arrived.data_ptr<int>()), total.data_ptr<float>(), x.numel());
    return total;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
