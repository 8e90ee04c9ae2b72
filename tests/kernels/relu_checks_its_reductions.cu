// problem: relu
// style: redux, match and shuffles with a mask for each quarter of the warp, checked against what each lane can work out
// assay: launch relu grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    const unsigned lane = threadIdx.x % 32, first = lane & 24, mask = 0xffu << first;
    bool wrong = __reduce_add_sync(mask, lane) != 8 * first + 28;
    wrong |= __reduce_min_sync(mask, 40 - lane) != 33 - first;
    wrong |= __reduce_or_sync(mask, 1u << lane) != mask;
    wrong |= __match_any_sync(mask, lane & 1) != ((lane & 1 ? 0xaau : 0x55u) << first);
    int same;
    wrong |= __match_all_sync(mask, first, &same) != mask || !same;
    wrong |= __match_all_sync(mask, first == 8 ? lane : 7u, &same) != (first == 8 ? 0 : mask) || same != (first != 8);
    wrong |= __shfl_sync(mask, lane, 3, 8) != first + 3;
    wrong |= __shfl_up_sync(mask, lane, 2, 8) != (lane % 8 < 2 ? lane : lane - 2);
    if (i < n) y[i] = wrong ? -1.0f : fmaxf(x[i], 0.0f);
}
