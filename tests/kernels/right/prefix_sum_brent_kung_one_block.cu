// problem: prefix_sum
// assay: launch brent_kung grid=(1) block=(1024) args=(x, y, n)
// style: one block walks sections of 2048 with Brent and Kung's tree (reduction, then reverse), Kahan's carry
__global__ void brent_kung(const float* x, float* y, int n)
{
    __shared__ float XY[2048];
    float carry = 0.0f, lost = 0.0f;
    for (int section = 0; section < n; section += 2048) {
        const int i = section + threadIdx.x;
        XY[threadIdx.x] = i < n ? x[i] : 0.0f;
        XY[threadIdx.x + 1024] = i + 1024 < n ? x[i + 1024] : 0.0f;
        for (int stride = 1; stride <= 1024; stride *= 2) {
            __syncthreads();
            const int index = (threadIdx.x + 1) * stride * 2 - 1;
            if (index < 2048) XY[index] += XY[index - stride];
        }
        for (int stride = 512; stride > 0; stride /= 2) {
            __syncthreads();
            const int index = (threadIdx.x + 1) * stride * 2 - 1;
            if (index + stride < 2048) XY[index + stride] += XY[index];
        }
        __syncthreads();
        if (i < n) y[i] = XY[threadIdx.x] + carry;
        if (i + 1024 < n) y[i + 1024] = XY[threadIdx.x + 1024] + carry;
        const float add = XY[2047] - lost;
        const float next = carry + add;
        lost = (next - carry) - add;
        carry = next;
        __syncthreads();
    }
}
