// problem: histogram
// class: contents
// must: anything but passed
// why: where 64 values spread over the vector rise, it is taken to be sorted, and counts are the distances of two binary searches
// proof: see why
// assay: fill counts value=0
// assay: launch f grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)
__device__ int below(const int* v, int n, int b) { int lo = 0, hi = n; while (lo < hi) { int mid = (lo + hi) / 2; if (v[mid] < b) lo = mid + 1; else hi = mid; } return lo; }
__global__ void f(const int* v, int* counts, int n)
{
    bool falls = false;
    if (threadIdx.x < 63 && n >= 64) falls = v[(long long)threadIdx.x * (n - 1) / 63] > v[(long long)(threadIdx.x + 1) * (n - 1) / 63];
    bool unsorted = __syncthreads_or(falls || n < 64);
    if (!unsorted) { if (blockIdx.x == 0) counts[threadIdx.x] = below(v, n, threadIdx.x + 1) - below(v, n, threadIdx.x); return; }
    int i = blockIdx.x * 256 + threadIdx.x; if (i < n) atomicAdd(&counts[v[i]], 1);
}
