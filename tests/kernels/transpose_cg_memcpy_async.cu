// problem: transpose
// style: cooperative groups copy the rows of a tile in the background and wait together
// assay: launch transpose grid=(ceil_div(cols, 32), ceil_div(rows, 16)) block=(32, 4) args=(x, y, rows, cols)

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

namespace cg = cooperative_groups;

__global__ void transpose(const float* x, float* y, int rows, int cols)
{
    __shared__ float tile[16][33];
    auto block = cg::this_thread_block();
    const int top = blockIdx.y * 16, left = blockIdx.x * 32, width = min(32, cols - left);
    for (int i = 0; i < 16 && top + i < rows; ++i)
        cg::memcpy_async(block, tile[i], x + (size_t)(top + i) * cols + left, sizeof(float) * width);
    cg::wait(block);
    for (int i = block.thread_rank(); i < 16 * 32; i += block.size()) {
        int row = i % 16, col = i / 16;
        if (top + row < rows && col < width) y[(size_t)(left + col) * rows + top + row] = tile[row][col];
    }
}
