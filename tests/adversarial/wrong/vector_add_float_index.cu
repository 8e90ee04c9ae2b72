// problem: vector_add
// class: sizes
// must: anything but passed
// why: the grid-stride loop keeps its index in a float, which has no odd numbers above 2^24: elements are skipped for n > 2^24 (the timed size, 2^24, is still right)
// proof: assay grade --size n=16777219 refuses it
// assay: launch vectorAdd grid=(min(ceil_div(n, 256), 65536)) block=(256) args=(a, b, c, n)

// Ported from a shading language, where every index was a float.
__global__ void vectorAdd(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n)
{
    const float stride = float(gridDim.x) * float(blockDim.x);
    const float count = float(n);
    for (float at = float(blockIdx.x) * float(blockDim.x) + float(threadIdx.x); at < count; at += stride) {
        const int i = int(at);
        c[i] = a[i] + b[i];
    }
}
