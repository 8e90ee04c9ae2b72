// problem: softmax
// style: --use_fast_math; cub::BlockReduce over (maximum, sum) pairs with an operator, the reciprocal multiplied
// flags: --use_fast_math
// assay: launch softmax_cub grid=(rows) block=(256) args=(x, y, cols)
#include <cub/cub.cuh>

struct Pair {
    float top, sum;
};

struct Join {
    __device__ Pair operator()(Pair a, Pair b) const
    {
        const bool left = a.top > b.top;
        const Pair high = left ? a : b, low = left ? b : a;
        return {high.top, high.sum + low.sum * __expf(low.top - high.top)};
    }
};

__global__ void softmax_cub(const float* x, float* y, int cols)
{
    using Reduce = cub::BlockReduce<Pair, 256>;
    __shared__ typename Reduce::TempStorage temp;
    __shared__ Pair whole;
    const size_t row = (size_t)blockIdx.x * cols;
    Pair mine = {-1.0e30f, 0.0f};
    for (int j = threadIdx.x; j < cols; j += 256) mine = Join()(mine, Pair{x[row + j], 1.0f});
    const Pair all = Reduce(temp).Reduce(mine, Join());
    if (threadIdx.x == 0) whole = {all.top, 1.0f / all.sum};
    __syncthreads();
    for (int j = threadIdx.x; j < cols; j += 256) y[row + j] = __expf(x[row + j] - whole.top) * whole.sum;
}
