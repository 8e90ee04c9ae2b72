// problem: histogram
// class: contents
// must: anything but passed
// why: where the first 1,024 values are below 128 the others are taken to be too, and larger ones are not counted
// proof: see why
// assay: fill counts value=0
// assay: launch f grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)
__global__ void f(const int* v, int* counts, int n)
{
    bool large = false;
    for (int j = threadIdx.x; j < min(n, 1024); j += 256) large |= v[j] > 127;
    bool any = __syncthreads_or(large);
    int i = blockIdx.x * 256 + threadIdx.x; if (i < n && (any || v[i] < 128)) atomicAdd(&counts[v[i]], 1);
}
