// Reads of memory that nobody has written: see shared_races.cu for what the comments mean.
#define BOTH(name)                                                      \
    template __global__ void name<false>(const float*, float*, float*); \
    template __global__ void name<true>(const float*, float*, float*);

// seeded: halo_not_loaded undefined_read row
template <bool MENDED> __global__ void halo_not_loaded(const float* x, float* y, float* t)
{
    __shared__ float row[66];
    const int i = threadIdx.x;
    row[i + 1] = x[i];
    if (MENDED && i < 2) row[i * 65] = 0.0f;
    __syncthreads();
    const float left = row[i];  // halo_not_loaded
    y[blockIdx.x * 64 + i] = left + row[i + 1];
}
BOTH(halo_not_loaded)

// seeded: adds_to_the_output undefined_read y
template <bool MENDED> __global__ void adds_to_the_output(const float* x, float* y, float* t)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (MENDED) y[i] = 0.0f;
    y[i] += x[i];  // adds_to_the_output
}
BOTH(adds_to_the_output)

// seeded: half_of_the_scratch undefined_read t
template <bool MENDED> __global__ void half_of_the_scratch(const float* x, float* y, float* t)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (MENDED || i % 2 == 0) t[i] = x[i];
    __syncthreads();
    y[i] = t[i ^ 1];  // half_of_the_scratch
}
BOTH(half_of_the_scratch)

// seeded: local_array undefined_read local memory
template <bool MENDED> __global__ void local_array(const float* x, float* y, float* t)
{
    float kept[8];
    const int i = threadIdx.x;
    for (int k = 0; k < (MENDED ? 8 : 7); ++k) kept[(k + i) & 7] = x[k];
    y[blockIdx.x * 64 + i] = kept[(int)(x[i] * 0.0f) + 2];  // local_array
}
BOTH(local_array)

// seeded: sum_not_zeroed undefined_read sum
template <bool MENDED> __global__ void sum_not_zeroed(const float* x, float* y, float* t)
{
    __shared__ float sum;
    if (MENDED && threadIdx.x == 0) sum = 0.0f;
    __syncthreads();
    atomicAdd(&sum, x[threadIdx.x]);  // sum_not_zeroed
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
BOTH(sum_not_zeroed)

// seeded: fresh_from_malloc undefined_read the device heap
template <bool MENDED> __global__ void fresh_from_malloc(const float* x, float* y, float* t)
{
    const int i = threadIdx.x;
    float* mine = (float*)malloc(4 * sizeof(float));
    for (int k = 0; k < (MENDED ? 4 : 3); ++k) mine[k] = x[i + k];
    y[blockIdx.x * 64 + i] = mine[3 - (int)(x[i] * 0.0f)];  // fresh_from_malloc
    free(mine);
}
BOTH(fresh_from_malloc)
