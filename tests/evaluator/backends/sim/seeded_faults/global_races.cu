// Races in global memory: see shared_races.cu for what the comments mean.
#define BOTH(name)                                                      \
    template __global__ void name<false>(const float*, float*, float*); \
    template __global__ void name<true>(const float*, float*, float*);

// seeded: lost_counts race y zero=y
template <bool MENDED> __global__ void lost_counts(const float* x, float* y, float* t)
{
    const int bin = threadIdx.x & 7;
    if (MENDED) atomicAdd(&y[bin], 1.0f);
    else y[bin] += 1.0f;  // lost_counts
}
BOTH(lost_counts)

// seeded: neighbour_block race t
template <bool MENDED> __global__ void neighbour_block(const float* x, float* y, float* t)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    t[i] = 2.0f * x[i];  // neighbour_block
    __syncthreads();
    y[i] = MENDED ? 2.0f * x[(i + 64) & 127] : t[(i + 64) & 127];  // neighbour_block
}
BOTH(neighbour_block)

// seeded: first_block_adds race t
template <bool MENDED> __global__ void first_block_adds(const float* x, float* y, float* t)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        t[blockIdx.x] = x[blockIdx.x];  // first_block_adds
        __threadfence();
        last = MENDED ? atomicAdd((int*)&t[100], 1) == 1 : blockIdx.x == 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) y[0] = t[0] + t[1];  // first_block_adds
}
BOTH(first_block_adds)

// seeded: ticket_before_barrier race t
template <bool MENDED> __global__ void ticket_before_barrier(const float* x, float* y, float* t)
{
    __shared__ bool last;
    const int i = blockIdx.x * 64 + threadIdx.x;
    t[i] = x[i];  // ticket_before_barrier
    __threadfence();
    if (MENDED) __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd((int*)&t[200], 1) == 1;
    __syncthreads();
    if (last) y[threadIdx.x] = t[threadIdx.x] + t[64 + threadIdx.x];  // ticket_before_barrier
}
BOTH(ticket_before_barrier)

// seeded: zeroed_by_one_block race y zero=y
template <bool MENDED> __global__ void zeroed_by_one_block(const float* x, float* y, float* t)
{
    if (!MENDED && blockIdx.x == 1 && threadIdx.x == 0) y[0] = 0.0f;  // zeroed_by_one_block
    if (threadIdx.x == 1) atomicAdd(&y[0], x[threadIdx.x]);  // zeroed_by_one_block
}
BOTH(zeroed_by_one_block)

// seeded: scratch_in_a_block race t
template <bool MENDED> __global__ void scratch_in_a_block(const float* x, float* y, float* t)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    t[i] = x[i] * x[i];  // scratch_in_a_block
    if (MENDED) __syncthreads();
    y[i] = t[i ^ 32];  // scratch_in_a_block
}
BOTH(scratch_in_a_block)

// seeded: overlapping_chunks race y
template <bool MENDED> __global__ void overlapping_chunks(const float* x, float* y, float* t)
{
    const int i = blockIdx.x * (MENDED ? 64 : 60) + threadIdx.x;
    y[i] = x[i] + blockIdx.x;  // overlapping_chunks
}
BOTH(overlapping_chunks)

// seeded: maximum_without_atomic race y zero=y
template <bool MENDED> __global__ void maximum_without_atomic(const float* x, float* y, float* t)
{
    const float mine = fabsf(x[blockIdx.x * 64 + threadIdx.x]);
    if (MENDED) atomicMax((int*)y, __float_as_int(mine));
    else if (mine > y[0]) y[0] = mine;  // maximum_without_atomic
}
BOTH(maximum_without_atomic)
