// problem: saxpy
// assay: launch assign grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, alpha, n)
// style: expression templates: out = alpha * x + y is a type whose [] evaluates one element
template <class E> struct expression { __device__ const E& self() const { return static_cast<const E&>(*this); } };

struct view : expression<view> {
    const float* p;
    __device__ explicit view(const float* from) : p(from) {}
    __device__ float operator[](int i) const { return p[i]; }
};

template <class R> struct scaled : expression<scaled<R>> {
    float by;
    R right;
    __device__ scaled(float f, R r) : by(f), right(r) {}
    __device__ float operator[](int i) const { return by * right[i]; }
};

template <class L, class R> struct added : expression<added<L, R>> {
    L left;
    R right;
    __device__ added(L l, R r) : left(l), right(r) {}
    __device__ float operator[](int i) const { return left[i] + right[i]; }
};

template <class R> __device__ scaled<R> operator*(float f, const expression<R>& r) { return {f, r.self()}; }
template <class L, class R> __device__ added<L, R> operator+(const expression<L>& l, const expression<R>& r)
{
    return {l.self(), r.self()};
}

__global__ void assign(const float* x, const float* y, float* out, float alpha, int n)
{
    const auto whole = alpha * view(x) + view(y);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = whole[i];
}
