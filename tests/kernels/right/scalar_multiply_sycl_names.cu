// problem: scalar_multiply
// assay: launch scale_nd grid=(ceil_div(n, 32 * 6)) block=(32, 6) args=(x, y, alpha, n)
// style: ported from SYCL: an nd_item class hides threadIdx behind get_global_linear_id; blocks of 32 by 6
struct nd_item {
    __device__ unsigned get_local_linear_id() const { return threadIdx.y * blockDim.x + threadIdx.x; }
    __device__ unsigned get_group_linear_id() const { return blockIdx.x; }
    __device__ unsigned get_local_range() const { return blockDim.x * blockDim.y * blockDim.z; }
    __device__ size_t get_global_linear_id() const
    {
        return size_t(get_group_linear_id()) * get_local_range() + get_local_linear_id();
    }
};

struct accessor {
    float* data;
    size_t range;
    __device__ float& operator[](size_t i) const { return data[i]; }
};

__global__ void scale_nd(const float* in, float* out, float alpha, size_t n)
{
    nd_item item;
    accessor result{out, n};
    const size_t gid = item.get_global_linear_id();
    if (gid < result.range) result[gid] = alpha * in[gid];
}
