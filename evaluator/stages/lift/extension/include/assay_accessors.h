// Accessors: a pointer with sizes and strides, which kernels take by value.
#pragma once

#include "assay_tensor.h"

namespace at {

template <typename T, size_t N, template <typename> class P = DefaultPtrTraits, typename I = int64_t> class AccessorBase {
  protected:
    typename P<T>::PtrType data_;
    I sizes_[N];
    I strides_[N];

  public:
    C10_HOST_DEVICE I size(I i) const { return sizes_[i]; }
    C10_HOST_DEVICE I stride(I i) const { return strides_[i]; }
    C10_HOST_DEVICE typename P<T>::PtrType data() const { return data_; }
};

// Of the dimensions after the first, at one index: it points at the sizes and strides of the whole.
template <typename T, size_t N, template <typename> class P, typename I> class PartAccessor {
    typename P<T>::PtrType data_;
    const I *sizes_, *strides_;

  public:
    C10_HOST_DEVICE PartAccessor(typename P<T>::PtrType data, const I *sizes, const I *strides) : data_(data), sizes_(sizes), strides_(strides) {}
    C10_HOST_DEVICE I size(I i) const { return sizes_[i]; }
    C10_HOST_DEVICE I stride(I i) const { return strides_[i]; }
    C10_HOST_DEVICE typename P<T>::PtrType data() const { return data_; }
    C10_HOST_DEVICE decltype(auto) operator[](I i) const {
        if constexpr (N == 1)
            return (data_[strides_[0] * i]);
        else
            return PartAccessor<T, N - 1, P, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
};

template <typename T, size_t N, template <typename> class P = DefaultPtrTraits, typename I = int64_t>
class GenericPackedTensorAccessor : public AccessorBase<T, N, P, I> {
  public:
    using PtrType = typename P<T>::PtrType;
    GenericPackedTensorAccessor(PtrType data, const int64_t *sizes, const int64_t *strides) {
        this->data_ = data;
        for (size_t i = 0; i < N; i++) this->sizes_[i] = (I)sizes[i], this->strides_[i] = (I)strides[i];
    }
    C10_HOST_DEVICE decltype(auto) operator[](I i) const {
        if constexpr (N == 1)
            return (this->data_[this->strides_[0] * i]);
        else
            return PartAccessor<T, N - 1, P, I>(this->data_ + this->strides_[0] * i, this->sizes_ + 1, this->strides_ + 1);
    }
};
template <typename T, size_t N, template <typename> class P = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, P, int32_t>;
template <typename T, size_t N, template <typename> class P = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, P, int64_t>;
template <typename T, size_t N, template <typename> class P = DefaultPtrTraits, typename I = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, P, I>;

// On the host: of a tensor that is on the device, reading an element is what a made-up address refuses.
template <typename T, size_t N> class TensorAccessor : public GenericPackedTensorAccessor<T, N> {
  public:
    using GenericPackedTensorAccessor<T, N>::GenericPackedTensorAccessor;
};

template <typename T, size_t N> TensorAccessor<T, N> Tensor::accessor() const {
    if (dim() != (int64_t)N) assay::check_failed("accessor: another number of dimensions than the tensor has");
    return TensorAccessor<T, N>(data_ptr<T>(), sizes().data(), strides().data());
}
template <typename T, size_t N, template <typename> class P, typename I> auto Tensor::generic_packed_accessor() const {
    if (dim() != (int64_t)N)
        assay::check_failed(assay::said("expected ", N, " dims but tensor has ", dim()));
    return GenericPackedTensorAccessor<T, N, P, I>(data_ptr<T>(), sizes().data(), strides().data());
}
template <typename T, size_t N, template <typename> class P> auto Tensor::packed_accessor32() const {
    return generic_packed_accessor<T, N, P, int32_t>();
}
template <typename T, size_t N, template <typename> class P> auto Tensor::packed_accessor64() const {
    return generic_packed_accessor<T, N, P, int64_t>();
}

} // namespace at
namespace torch {
using at::DefaultPtrTraits;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::RestrictPtrTraits;
} // namespace torch
