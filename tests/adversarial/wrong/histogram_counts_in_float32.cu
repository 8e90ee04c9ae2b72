// problem: histogram
// class: sizes contents
// must: anything but passed
// why: counts in float32: a bin stops at 2^24 = 16,777,216; n goes to 17,825,792 and all values may be equal
// proof: assay grade --size n=17825792 with all values equal
// assay: temp f float32 (256)
// assay: fill f value=0
// assay: launch count grid=(min(ceil_div(n, 1024), 2048)) block=(256) args=(values, f, n)
// assay: launch round grid=(1) block=(256) args=(f, counts)
__global__ void count(const int* values, float* f, int n)
{
    __shared__ float h[256];
    h[threadIdx.x] = 0; __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&h[values[i]], 1.0f);
    __syncthreads();
    if (h[threadIdx.x] > 0) atomicAdd(&f[threadIdx.x], h[threadIdx.x]);
}
__global__ void round(const float* f, int* counts) { counts[threadIdx.x] = (int)f[threadIdx.x]; }
