// Races in shared memory. Each kernel is wrong with MENDED false and right with true.
// seeded: NAME KIND BUFFER [grid=2 block=64 zero=y]; comments `NAME` mark the lines that must be named.
#define BOTH(name)                                                      \
    template __global__ void name<false>(const float*, float*, float*); \
    template __global__ void name<true>(const float*, float*, float*);

// seeded: tile_read_early race tile
template <bool MENDED> __global__ void tile_read_early(const float* x, float* y, float* t)
{
    __shared__ float tile[64];
    const int i = threadIdx.x, base = blockIdx.x * 64;
    tile[i] = x[base + i];  // tile_read_early
    if (MENDED) __syncthreads();
    y[base + i] = tile[63 - i];  // tile_read_early
}
BOTH(tile_read_early)

// seeded: loop_end race stage
template <bool MENDED> __global__ void loop_end(const float* x, float* y, float* t)
{
    __shared__ float stage[64];
    float sum = 0.0f;
    for (int round = 0; round < 4; ++round) {
        stage[threadIdx.x] = x[(round * 64 + threadIdx.x) & 127];  // loop_end
        __syncthreads();
        sum += stage[(threadIdx.x + 32) & 63];  // loop_end
        if (MENDED) __syncthreads();
    }
    y[blockIdx.x * 64 + threadIdx.x] = sum;
}
BOTH(loop_end)

// seeded: tree race part block=128
template <bool MENDED> __global__ void tree(const float* x, float* y, float* t)
{
    __shared__ float part[128];
    const int i = threadIdx.x;
    part[i] = x[i];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (i < half) part[i] += part[i + half];  // tree
        if (MENDED) __syncthreads();
    }
    if (i == 0) y[blockIdx.x] = part[0];
}
BOTH(tree)

// seeded: lanes_exchange race pairs block=32
template <bool MENDED> __global__ void lanes_exchange(const float* x, float* y, float* t)
{
    __shared__ float pairs[32];
    pairs[threadIdx.x] = x[threadIdx.x];  // lanes_exchange
    if (MENDED) __syncwarp();
    y[blockIdx.x * 32 + threadIdx.x] = pairs[threadIdx.x ^ 1];  // lanes_exchange
}
BOTH(lanes_exchange)

// seeded: counts_read_early race bins
template <bool MENDED> __global__ void counts_read_early(const float* x, float* y, float* t)
{
    __shared__ int bins[64];
    bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[(threadIdx.x * 7) & 63], 1 + (x[threadIdx.x] > 0.0f));  // counts_read_early
    if (MENDED) __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = bins[threadIdx.x];  // counts_read_early
}
BOTH(counts_read_early)

// seeded: count_zeroed_late race count
template <bool MENDED> __global__ void count_zeroed_late(const float* x, float* y, float* t)
{
    __shared__ int count;
    if (threadIdx.x == 63) count = 0;  // count_zeroed_late
    if (MENDED) __syncthreads();
    if (x[threadIdx.x] > -1.0f) atomicAdd(&count, 1);  // count_zeroed_late
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = count;
}
BOTH(count_zeroed_late)

// seeded: broadcast race mean
template <bool MENDED> __global__ void broadcast(const float* x, float* y, float* t)
{
    __shared__ float mean;
    if (threadIdx.x == 0) mean = x[0] + x[1];  // broadcast
    if (MENDED) __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x] - mean;  // broadcast
}
BOTH(broadcast)

// seeded: one_slot race slot block=32
template <bool MENDED> __global__ void one_slot(const float* x, float* y, float* t)
{
    __shared__ float slot;
    if (!MENDED || threadIdx.x == 5) slot = x[threadIdx.x];  // one_slot
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = slot;
}
BOTH(one_slot)

// seeded: barrier_of_two_warps race given block=96
template <bool MENDED> __global__ void barrier_of_two_warps(const float* x, float* y, float* t)
{
    __shared__ float given[96];
    given[threadIdx.x] = x[threadIdx.x];  // barrier_of_two_warps
    if (MENDED) asm volatile("bar.sync 1, 96;" ::: "memory");
    else if (threadIdx.x < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
    if (threadIdx.x < 64) y[blockIdx.x * 64 + threadIdx.x] = given[threadIdx.x + 32];  // barrier_of_two_warps
}
BOTH(barrier_of_two_warps)

// seeded: wrong_half race stage shared=512
template <bool MENDED> __global__ void wrong_half(const float* x, float* y, float* t)
{
    extern __shared__ float stage[];
    float sum = 0.0f;
    stage[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int round = 0; round < 3; ++round) {
        const int now = (round & 1) * 64, next = MENDED ? 64 - now : now;
        const float loaded = x[(round * 64 + threadIdx.x + 64) & 127];
        sum += stage[now + (threadIdx.x ^ 32)];  // wrong_half
        stage[next + threadIdx.x] = loaded;  // wrong_half
        __syncthreads();
    }
    y[blockIdx.x * 64 + threadIdx.x] = sum;
}
BOTH(wrong_half)

// seeded: scan_in_place race run block=128
template <bool MENDED> __global__ void scan_in_place(const float* x, float* y, float* t)
{
    __shared__ float run[128];
    const int i = threadIdx.x;
    run[i] = x[i];
    for (int step = 1; step < 128; step *= 2) {
        __syncthreads();
        const float before = i >= step ? run[i - step] : 0.0f;  // scan_in_place
        if (MENDED) __syncthreads();
        run[i] += before;  // scan_in_place
    }
    y[blockIdx.x * 128 + i] = run[i];
}
BOTH(scan_in_place)

// seeded: second_use race room
template <bool MENDED> __global__ void second_use(const float* x, float* y, float* t)
{
    __shared__ float room[64];
    const int i = threadIdx.x;
    room[i] = x[i];
    __syncthreads();
    const float mirrored = room[63 - i];  // second_use
    if (MENDED) __syncthreads();
    room[i] = mirrored * mirrored;  // second_use
    __syncthreads();
    y[blockIdx.x * 64 + i] = room[(i + 1) & 63];
}
BOTH(second_use)
