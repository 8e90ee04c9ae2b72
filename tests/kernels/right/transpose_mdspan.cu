// problem: transpose
// assay: launch transpose_views grid=(ceil_div(cols, 32), ceil_div(rows, 32)) block=(32, 8) args=(x, y, rows, cols)
// style: cuda::std::mdspan: the output is seen through layout_left, so that one index serves both; a padded tile between
#include <cuda/std/mdspan>

__global__ void transpose_views(const float* x, float* y, int rows, int cols)
{
    using extents = cuda::std::dextents<int, 2>;
    cuda::std::mdspan<const float, extents> from(x, rows, cols);
    cuda::std::mdspan<float, extents, cuda::std::layout_left> to(y, rows, cols);
    __shared__ float tile[32][33];
    for (int i = threadIdx.y; i < 32; i += blockDim.y) {
        const int r = blockIdx.y * 32 + i, c = blockIdx.x * 32 + threadIdx.x;
        if (r < from.extent(0) && c < from.extent(1)) tile[i][threadIdx.x] = from(r, c);
    }
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += blockDim.y) {
        const int r = blockIdx.y * 32 + threadIdx.x, c = blockIdx.x * 32 + i;
        if (r < to.extent(0) && c < to.extent(1)) to(r, c) = tile[threadIdx.x][i];
    }
}
