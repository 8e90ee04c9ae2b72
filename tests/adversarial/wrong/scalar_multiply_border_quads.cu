// problem: scalar_multiply
// class: schedule
// must: anything but passed
// why: blocks own 250 elements each, but read, change and write whole float4: the quad at a border belongs to two blocks, and what one wrote the other may put back to what it was
// proof: two neighbouring blocks that read the border quad before either writes it
// assay: fill y value=0
// assay: launch scale grid=(ceil_div(n, 250)) block=(64) args=(x, y, alpha, n)

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    const int begin = blockIdx.x * 250, end = min(n, begin + 250);
    const int q = begin / 4 + threadIdx.x;
    if (4 * q >= end) return;
    if (4 * q + 3 >= n) {
        for (int i = max(begin, 4 * q); i < end; ++i) y[i] = alpha * x[i];
        return;
    }
    const float4 in = __ldcg(reinterpret_cast<const float4*>(x) + q);
    float4 out = __ldcg(reinterpret_cast<float4*>(y) + q);
    if (4 * q + 0 >= begin) out.x = alpha * in.x;
    if (4 * q + 1 >= begin && 4 * q + 1 < end) out.y = alpha * in.y;
    if (4 * q + 2 >= begin && 4 * q + 2 < end) out.z = alpha * in.z;
    if (4 * q + 3 < end) out.w = alpha * in.w;
    __stcg(reinterpret_cast<float4*>(y) + q, out);
}
