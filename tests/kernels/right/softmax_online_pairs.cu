// problem: softmax
// assay: launch online_softmax<128> grid=(rows) block=(128) args=(x, y, cols)
// style: online normaliser after the paper: struct MD {m, d}, an associative reduce_md_op, a block reduction over structs
#include <cfloat>

struct __align__(8) MD {
    float m;
    float d;
};

__device__ __forceinline__ MD reduce_md_op(MD a, MD b)
{
    const bool a_bigger = a.m > b.m;
    const MD bigger = a_bigger ? a : b;
    const MD smaller = a_bigger ? b : a;
    MD res;
    res.d = bigger.d + smaller.d * __expf(smaller.m - bigger.m);
    res.m = bigger.m;
    return res;
}

template <int THREADBLOCK_SIZE> __launch_bounds__(THREADBLOCK_SIZE)
__global__ void online_softmax(const float* __restrict x, float* __restrict y, int V)
{
    const int thread_id = threadIdx.x;
    const int vector_id = blockIdx.x;
    x += (size_t)vector_id * V;
    y += (size_t)vector_id * V;

    __shared__ MD temp_storage[THREADBLOCK_SIZE];
    MD md_partial{-FLT_MAX, 0.0F};
    for (int elem_id = thread_id; elem_id < V; elem_id += THREADBLOCK_SIZE)
        md_partial = reduce_md_op(md_partial, MD{x[elem_id], 1.0F});

    temp_storage[thread_id] = md_partial;
    for (int half = THREADBLOCK_SIZE / 2; half > 0; half >>= 1) {
        __syncthreads();
        if (thread_id < half) temp_storage[thread_id] = reduce_md_op(temp_storage[thread_id], temp_storage[thread_id + half]);
    }
    __syncthreads();
    const MD md_total = temp_storage[0];
    const float d_total_inverse = __fdividef(1.0F, md_total.d);
    for (int elem_id = thread_id; elem_id < V; elem_id += THREADBLOCK_SIZE)
        y[elem_id] = __expf(x[elem_id] - md_total.m) * d_total_inverse;
}
template __global__ void online_softmax<128>(const float* __restrict, float* __restrict, int);
