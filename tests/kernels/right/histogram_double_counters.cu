// problem: histogram
// style: counters in double, which hold every count exactly: atomicAdd(double*) in shared memory, merged and rounded to integers
// assay: temp bins float64 (256)
// assay: fill bins value=0
// assay: launch count_doubles grid=(min(ceil_div(n, 4096), 64)) block=(256) args=(values, bins, n)
// assay: launch to_integers grid=(1) block=(256) args=(bins, counts)
__global__ void count_doubles(const int* values, double* bins, int n)
{
    __shared__ double s[256];
    s[threadIdx.x] = 0.0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&s[values[i] & 255], 1.0);
    __syncthreads();
    if (s[threadIdx.x] != 0.0) atomicAdd(bins + threadIdx.x, s[threadIdx.x]);
}

__global__ void to_integers(const double* bins, int* counts) { counts[threadIdx.x] = __double2int_rn(bins[threadIdx.x]); }
