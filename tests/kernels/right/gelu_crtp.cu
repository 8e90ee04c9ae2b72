// problem: gelu
// assay: launch apply<exact_gelu> grid=(ceil_div(n, 256)) block=(32, 8) args=(x, y, n)
// style: static polymorphism: an activation base class calls its derived class (CRTP); one row of warps a block
template <class Self> struct activation {
    __device__ void run(const float* x, float* y, int i) const { y[i] = static_cast<const Self*>(this)->of(x[i]); }
};

struct exact_gelu : activation<exact_gelu> {
    __device__ float of(float v) const { return fmaf(v * 0.5f, erff(v * rsqrtf(2.0f)), v * 0.5f); }
};

template <class A> __global__ void apply(const float* x, float* y, int n)
{
    const int warp = blockIdx.x * blockDim.y + threadIdx.y;
    const int i = warp * warpSize + threadIdx.x;
    if (i < n) A{}.run(x, y, i);
}
template __global__ void apply<exact_gelu>(const float*, float*, int);
