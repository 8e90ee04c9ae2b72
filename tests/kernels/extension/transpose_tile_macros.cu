// problem: transpose
// style: macros that check, a tile as a template, two-dimensional blocks
#include <torch/extension.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

template <typename scalar_t, int TILE, int ROWS>
__global__ void transpose_kernel(const scalar_t* __restrict__ in, scalar_t* __restrict__ out, int rows, int cols)
{
    __shared__ scalar_t tile[TILE][TILE + 1];
    int col = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS)
        if (col < cols && row + i < rows) tile[threadIdx.y + i][threadIdx.x] = in[(int64_t)(row + i) * cols + col];
    __syncthreads();
    col = blockIdx.y * TILE + threadIdx.x, row = blockIdx.x * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS)
        if (col < rows && row + i < cols) out[(int64_t)(row + i) * rows + col] = tile[threadIdx.x][threadIdx.y + i];
}

torch::Tensor forward(torch::Tensor x)
{
    CHECK_INPUT(x);
    const int rows = x.size(0), cols = x.size(1);
    auto y = torch::empty({cols, rows}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "transpose", ([&] {
        transpose_kernel<scalar_t, 16, 8><<<dim3((cols + 15) / 16, (rows + 15) / 16), dim3(16, 8)>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), rows, cols);
    }));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
