// problem: scalar_multiply
// assay: launch scale_raii grid=(ceil_div(n, 512)) block=(256) args=(x, y, alpha, n)
// style: C++ objects: a tile whose constructor loads into shared memory and whose destructor stores it, move-only
#include <utility>

class tile {
    float* home_;
    float (&room_)[512];
    int size_;
    bool owner_ = true;

public:
    __device__ tile(const float* from, float* home, float (&room)[512], int size) : home_(home), room_(room), size_(size)
    {
        for (int i = threadIdx.x; i < size_; i += blockDim.x) room_[i] = from[i];
        __syncthreads();
    }
    tile(const tile&) = delete;
    __device__ tile(tile&& other) : home_(other.home_), room_(other.room_), size_(other.size_) { other.owner_ = false; }
    __device__ ~tile()
    {
        if (!owner_) return;
        __syncthreads();
        for (int i = threadIdx.x; i < size_; i += blockDim.x) home_[i] = room_[i];
    }
    __device__ tile&& operator*=(float f) &&
    {
        for (int i = threadIdx.x; i < size_; i += blockDim.x) room_[size_ - 1 - i] *= f;
        return std::move(*this);
    }
};

__global__ void scale_raii(const float* x, float* y, float alpha, int n)
{
    __shared__ float room[512];
    const int begin = blockIdx.x * 512;
    tile done = tile(x + begin, y + begin, room, min(512, n - begin)) *= alpha;
}
