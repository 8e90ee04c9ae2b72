// problem: prefix_sum
// style: one block of 1024 threads takes 4 elements each in turns with a carry; the doubling scan over the whole block, minus own
// assay: launch rounds grid=(1) block=(1024) args=(x, y, n)
__global__ void rounds(const float* x, float* y, int n)
{
    __shared__ float s[2][1024];
    float carry = 0.0f;
    for (int first = 0; first < n; first += 4096) {
        const int i = first + 4 * threadIdx.x;
        float v[4], own = 0.0f;
        for (int k = 0; k < 4; ++k) v[k] = own += i + k < n ? x[i + k] : 0.0f;
        int at = 0;
        s[0][threadIdx.x] = own;
        __syncthreads();
        for (int d = 1; d < 1024; d *= 2) {
            s[1 - at][threadIdx.x] = s[at][threadIdx.x] + (threadIdx.x >= d ? s[at][threadIdx.x - d] : 0.0f);
            at = 1 - at;
            __syncthreads();
        }
        const float before = carry + s[at][threadIdx.x] - own;
        for (int k = 0; k < 4; ++k)
            if (i + k < n) y[i + k] = before + v[k];
        carry += s[at][1023];
        __syncthreads();
    }
}
