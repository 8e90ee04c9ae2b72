// problem: matmul_f16
// style: at::Half as __half, AT_DISPATCH with the accumulation type
#include <torch/extension.h>
#include <ATen/AccumulateType.h>

template <typename scalar_t, typename acc_t> __global__ void product(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    acc_t sum = 0;
    for (int i = 0; i < k; i++) sum += static_cast<acc_t>(a[(size_t)row * k + i]) * static_cast<acc_t>(b[(size_t)i * n + col]);
    c[(size_t)row * n + col] = static_cast<scalar_t>(sum);
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b)
{
    auto c = torch::empty({a.size(0), b.size(1)}, a.options());
    dim3 block(16, 16), grid((b.size(1) + 15) / 16, (a.size(0) + 15) / 16);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(a.scalar_type(), "product", [&] {
        using acc_t = at::acc_type<scalar_t, true>;
        product<scalar_t, acc_t><<<grid, block>>>(a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), c.data_ptr<scalar_t>(), a.size(0), b.size(1), a.size(1));
    });
    return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
