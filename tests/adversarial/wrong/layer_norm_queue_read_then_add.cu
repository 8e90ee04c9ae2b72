// problem: layer_norm
// class: schedule
// must: anything but passed
// why: persistent blocks take rows from a queue by reading its head and then adding 1: two blocks that read the same head skip a row, which stays unwritten
// proof: atomicAdd's own result must be the row; on a GPU with many blocks rows are missing
// assay: temp head int32 (1)
// assay: fill head value=0
// assay: launch ln grid=(min(rows, 528)) block=(128) args=(x, weight, bias, y, eps, head, rows, cols)
#include <cub/block/block_reduce.cuh>

__global__ void __launch_bounds__(128)
ln(const float* x, const float* weight, const float* bias, float* y, float eps, int* head, int rows, int cols)
{
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ Reduce::TempStorage temp;
    __shared__ float mean, inv;
    __shared__ int row;
    for (;;) {
        if (threadIdx.x == 0) {
            row = atomicAdd(head, 0);  // look
            atomicAdd(head, 1);        // and take
        }
        __syncthreads();
        const int r = row;
        if (r >= rows) return;
        const float* in = x + (size_t)r * cols;
        float s = 0.f;
        for (int c = threadIdx.x; c < cols; c += 128) s += in[c];
        s = Reduce(temp).Sum(s);
        if (threadIdx.x == 0) mean = s / cols;
        __syncthreads();
        float d = 0.f;
        for (int c = threadIdx.x; c < cols; c += 128) d += (in[c] - mean) * (in[c] - mean);
        d = Reduce(temp).Sum(d);
        if (threadIdx.x == 0) inv = rsqrtf(d / cols + eps);
        __syncthreads();
        for (int c = threadIdx.x; c < cols; c += 128) y[(size_t)r * cols + c] = (in[c] - mean) * inv * weight[c] + bias[c];
        __syncthreads();
    }
}
