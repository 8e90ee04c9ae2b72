// problem: histogram
// assay: temp slices uint32 (ceil_div(n, 4096), 256)
// assay: launch count_slice grid=(ceil_div(n, 4096)) block=(256) args=(values, slices, n)
// assay: launch add_slices grid=(32) block=(32, 8) args=(slices, counts, ceil_div(n, 4096))
// style: no atomics: every thread owns a bin and looks at all values of its block's slice in shared memory
__global__ void count_slice(const int* values, unsigned* slices, int n)
{
    __shared__ __align__(4) unsigned char bytes[4096];
    const int begin = blockIdx.x * 4096, length = min(4096, n - begin);
    for (int i = threadIdx.x; i < length; i += 256) bytes[i] = (unsigned char)values[begin + i];
    __syncthreads();
    unsigned mine = 0;
    const int words = length / 4;
    for (int w = 0; w < words; ++w) {
        const uchar4 v = reinterpret_cast<const uchar4*>(bytes)[w];
        mine += (v.x == threadIdx.x) + (v.y == threadIdx.x) + (v.z == threadIdx.x) + (v.w == threadIdx.x);
    }
    for (int i = words * 4; i < length; ++i) mine += bytes[i] == threadIdx.x;
    slices[blockIdx.x * 256 + threadIdx.x] = mine;
}

__global__ void add_slices(const unsigned* slices, int* counts, int many)
{
    const int bin = blockIdx.x * 8 + threadIdx.y;
    int sum = 0;
    for (int s = threadIdx.x; s < many; s += 32) sum += slices[s * 256 + bin];
    sum = __reduce_add_sync(0xffffffffu, sum);
    if (threadIdx.x == 0) counts[bin] = sum;
}
