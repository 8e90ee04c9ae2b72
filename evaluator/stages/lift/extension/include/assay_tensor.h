// Tensors that have sizes, strides, a type and a made-up address, and no contents: at::Tensor as host code uses it.
//
// What needs data is an operator of PyTorch's own, and ends the recording with its name (assay_operators.h).
#pragma once

#include "assay_scalars.h"

namespace assay {
struct TensorFacts;
} // namespace assay

namespace at {

using namespace c10;
class Tensor;
using TensorList = ArrayRef<Tensor>;
template <typename T, size_t N> class TensorAccessor;

struct DeprecatedTypeProperties {
    ScalarType type;
    bool cuda;
    ScalarType scalarType() const { return type; }
    bool is_cuda() const { return cuda; }
    operator ScalarType() const { return type; }
};

template <typename T> struct DefaultPtrTraits {
    typedef T *PtrType;
};
template <typename T> struct RestrictPtrTraits {
    typedef T *__restrict__ PtrType;
};
#include "assay_operators.h"

class Tensor {
    assay::TensorFacts *facts_ = nullptr; // never given back: the process is short

    void *checked_data(ScalarType type) const;

  public:
    Tensor() = default;
    explicit Tensor(assay::TensorFacts *facts) : facts_(facts) {}
    assay::TensorFacts *facts() const { return facts_; }

    bool defined() const { return facts_ != nullptr; }
    void reset() { facts_ = nullptr; }
    bool is_same(const Tensor &other) const { return facts_ == other.facts_; }
    int64_t dim() const;
    int64_t ndimension() const { return dim(); }
    int64_t size(int64_t dim) const;
    int64_t stride(int64_t dim) const;
    IntArrayRef sizes() const;
    IntArrayRef strides() const;
    int64_t numel() const;
    int64_t storage_offset() const;
    size_t element_size() const { return elementSize(scalar_type()); }
    size_t itemsize() const { return element_size(); }
    size_t nbytes() const { return (size_t)numel() * element_size(); }
    ScalarType scalar_type() const;
    caffe2::TypeMeta dtype() const { return scalar_type(); }
    DeprecatedTypeProperties type() const { return {scalar_type(), is_cuda()}; }
    Device device() const;
    bool is_cuda() const { return device().is_cuda(); }
    bool is_cpu() const { return device().is_cpu(); }
    int64_t get_device() const { return is_cuda() ? 0 : -1; }
    Layout layout() const { return kStrided; }
    bool is_sparse() const { return false; }
    bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
    bool is_non_overlapping_and_dense() const;
    bool is_floating_point() const { return isFloatingType(scalar_type()); }
    bool is_complex() const { return false; }
    bool is_quantized() const { return false; }
    bool is_inference() const { return false; }
    bool is_meta() const { return false; }
    bool has_storage() const { return true; }
    bool is_same_size(const Tensor &other) const { return sizes() == other.sizes(); }
    bool requires_grad() const { return false; }
    bool is_leaf() const { return true; }
    const Tensor &requires_grad_(bool = true) const { return *this; }
    const Tensor &set_requires_grad(bool) const { return *this; }
    TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }
    MemoryFormat suggest_memory_format(bool channels_last_strides_exact_match = false) const;

    void *data_ptr() const;
    const void *const_data_ptr() const { return data_ptr(); }
    void *mutable_data_ptr() const { return data_ptr(); }
    template <typename T> T *data_ptr() const {
        return (T *)checked_data(CppTypeToScalarType<std::remove_const_t<T>>::value);
    }
    template <typename T> const T *const_data_ptr() const { return data_ptr<T>(); }
    template <typename T> T *mutable_data_ptr() const { return data_ptr<T>(); }
    template <typename T> T *data() const { return data_ptr<T>(); }

    // Views: other sizes and strides of the same memory.
    Tensor view(IntArrayRef sizes) const;
    Tensor view(ScalarType type) const;
    Tensor reshape(IntArrayRef sizes) const;
    Tensor view_as(const Tensor &other) const { return view(other.sizes()); }
    Tensor reshape_as(const Tensor &other) const { return reshape(other.sizes()); }
    Tensor flatten(int64_t from = 0, int64_t to = -1) const;
    Tensor ravel() const { return reshape(IntArrayRef(-1)); }
    Tensor squeeze() const;
    Tensor squeeze(int64_t dim) const;
    Tensor unsqueeze(int64_t dim) const;
    Tensor transpose(int64_t a, int64_t b) const;
    Tensor swapaxes(int64_t a, int64_t b) const { return transpose(a, b); }
    Tensor t() const;
    Tensor mT() const { return transpose(-2, -1); }
    Tensor permute(IntArrayRef dims) const;
    Tensor expand(IntArrayRef sizes, bool implicit = false) const;
    Tensor expand_as(const Tensor &other) const { return expand(other.sizes()); }
    Tensor narrow(int64_t dim, int64_t start, int64_t length) const;
    Tensor select(int64_t dim, int64_t index) const;
    Tensor slice(int64_t dim = 0, optional<int64_t> start = nullopt, optional<int64_t> end = nullopt, int64_t step = 1) const;
    Tensor as_strided(IntArrayRef sizes, IntArrayRef strides, optional<int64_t> offset = nullopt) const;
    Tensor operator[](int64_t index) const { return select(0, index); }
    std::vector<Tensor> split(int64_t size, int64_t dim = 0) const;
    std::vector<Tensor> split(IntArrayRef sizes, int64_t dim = 0) const { return split_with_sizes(sizes, dim); }
    std::vector<Tensor> split_with_sizes(IntArrayRef sizes, int64_t dim = 0) const;
    std::vector<Tensor> chunk(int64_t many, int64_t dim = 0) const;
    std::vector<Tensor> unbind(int64_t dim = 0) const;
    Tensor detach() const { return *this; }
    Tensor alias() const { return *this; }
    Tensor variable_data() const { return *this; }
    Tensor tensor_data() const { return *this; }

    // Moves: copies and fills on the device, which are steps of a plan.
    Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
    Tensor clone(optional<MemoryFormat> format = nullopt) const;
    const Tensor &copy_(const Tensor &from, bool non_blocking = false) const;
    const Tensor &zero_() const;
    const Tensor &fill_(const Scalar &value) const;
    Tensor to(const TensorOptions &options, bool non_blocking = false, bool copy = false) const;
    Tensor to(ScalarType type, bool non_blocking = false, bool copy = false) const;
    Tensor to(Device device, ScalarType type, bool non_blocking = false, bool copy = false) const;
    Tensor to(const TensorOptions &options, bool non_blocking, bool copy, optional<MemoryFormat> format) const;
    Tensor to(caffe2::TypeMeta type) const { return to(type.type); }
    Tensor toType(ScalarType type) const { return to(type); }
    Tensor to(const Tensor &other) const { return to(other.options()); }
    Tensor cuda() const { return to(TensorOptions(kCUDA)); }
    Tensor cpu() const;
    Tensor new_empty(IntArrayRef sizes, TensorOptions options = {}) const;
    Tensor new_zeros(IntArrayRef sizes, TensorOptions options = {}) const;
    Tensor new_full(IntArrayRef sizes, const Scalar &value, TensorOptions options = {}) const;
    Tensor new_ones(IntArrayRef sizes, TensorOptions options = {}) const { return new_full(sizes, 1, options); }

    // Reads of data on the host.
    template <typename T> T item() const { assay::host_reads("item"); }
    Scalar item() const { assay::host_reads("item"); }
    bool equal(const Tensor &) const { assay::host_reads("equal"); }
    bool is_nonzero() const { assay::host_reads("is_nonzero"); }

    template <typename T, size_t N> TensorAccessor<T, N> accessor() const;
    template <typename T, size_t N, template <typename> class P, typename I> auto generic_packed_accessor() const;
    template <typename T, size_t N, template <typename> class P = DefaultPtrTraits> auto packed_accessor32() const;
    template <typename T, size_t N, template <typename> class P = DefaultPtrTraits> auto packed_accessor64() const;

    ASSAY_METHODS
    ASSAY_PAIR_METHODS
    Tensor operator-() const { assay::operator_called("neg"); }
    Tensor operator~() const { assay::operator_called("bitwise_not"); }
    template <typename T> Tensor &operator+=(const T &) { assay::operator_called("add_"); }
    template <typename T> Tensor &operator-=(const T &) { assay::operator_called("sub_"); }
    template <typename T> Tensor &operator*=(const T &) { assay::operator_called("mul_"); }
    template <typename T> Tensor &operator/=(const T &) { assay::operator_called("div_"); }
};

#define ASSAY_SIGN(sign, name)                                                                     \
    inline Tensor operator sign(const Tensor &, const Tensor &) { assay::operator_called(name); }  \
    inline Tensor operator sign(const Tensor &, const Scalar &) { assay::operator_called(name); }  \
    inline Tensor operator sign(const Scalar &, const Tensor &) { assay::operator_called(name); }
ASSAY_SIGN(+, "add")
ASSAY_SIGN(-, "sub")
ASSAY_SIGN(*, "mul")
ASSAY_SIGN(/, "div")
ASSAY_SIGN(<, "lt")
ASSAY_SIGN(<=, "le")
ASSAY_SIGN(>, "gt")
ASSAY_SIGN(>=, "ge")
ASSAY_SIGN(==, "eq")
ASSAY_SIGN(!=, "ne")
#undef ASSAY_SIGN

Tensor empty(IntArrayRef sizes, TensorOptions options = {}, optional<MemoryFormat> format = nullopt);
inline TensorOptions options_of(optional<ScalarType> type, optional<Layout>, optional<Device> device, optional<bool>) {
    return TensorOptions().dtype(type).device(device);
}
inline Tensor empty(IntArrayRef sizes, optional<ScalarType> type, optional<Layout> layout, optional<Device> device, optional<bool> pinned,
                    optional<MemoryFormat> format) {
    return empty(sizes, options_of(type, layout, device, pinned), format);
}
Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, TensorOptions options = {});
Tensor full(IntArrayRef sizes, const Scalar &value, TensorOptions options = {});
Tensor zeros(IntArrayRef sizes, TensorOptions options = {});
Tensor ones(IntArrayRef sizes, TensorOptions options = {});
inline Tensor zeros(IntArrayRef sizes, optional<ScalarType> type, optional<Layout> layout, optional<Device> device, optional<bool> pinned) {
    return zeros(sizes, options_of(type, layout, device, pinned));
}
Tensor empty_like(const Tensor &like, TensorOptions options = {}, optional<MemoryFormat> format = nullopt);
Tensor full_like(const Tensor &like, const Scalar &value, TensorOptions options = {}, optional<MemoryFormat> format = nullopt);
Tensor zeros_like(const Tensor &like, TensorOptions options = {}, optional<MemoryFormat> format = nullopt);
Tensor ones_like(const Tensor &like, TensorOptions options = {}, optional<MemoryFormat> format = nullopt);
Tensor from_blob(void *data, IntArrayRef sizes, TensorOptions options = {});
Tensor from_blob(void *data, IntArrayRef sizes, IntArrayRef strides, TensorOptions options = {});
Tensor filled_on_host(const double *values, size_t many, bool scalar, TensorOptions options);

template <typename T> Tensor tensor(std::initializer_list<T> values, TensorOptions options = {}) {
    std::vector<double> held(values.begin(), values.end());
    return filled_on_host(held.data(), held.size(), false, TensorOptions(CppTypeToScalarType<T>::value).merge_in(options));
}
template <typename T> Tensor tensor(const std::vector<T> &values, TensorOptions options = {}) {
    std::vector<double> held(values.begin(), values.end());
    return filled_on_host(held.data(), held.size(), false, TensorOptions(CppTypeToScalarType<T>::value).merge_in(options));
}
template <typename T> std::enable_if_t<std::is_arithmetic_v<T>, Tensor> tensor(T value, TensorOptions options = {}) {
    double held = (double)value;
    return filled_on_host(&held, 1, true, TensorOptions(CppTypeToScalarType<T>::value).merge_in(options));
}
inline Tensor scalar_tensor(const Scalar &value, TensorOptions options = {}) {
    double held = value.toDouble();
    return filled_on_host(&held, 1, true, options);
}

inline Tensor reshape(const Tensor &x, IntArrayRef sizes) { return x.reshape(sizes); }
inline Tensor flatten(const Tensor &x, int64_t from = 0, int64_t to = -1) { return x.flatten(from, to); }
inline Tensor squeeze(const Tensor &x) { return x.squeeze(); }
inline Tensor squeeze(const Tensor &x, int64_t dim) { return x.squeeze(dim); }
inline Tensor unsqueeze(const Tensor &x, int64_t dim) { return x.unsqueeze(dim); }
inline Tensor transpose(const Tensor &x, int64_t a, int64_t b) { return x.transpose(a, b); }
inline Tensor t(const Tensor &x) { return x.t(); }
inline Tensor permute(const Tensor &x, IntArrayRef dims) { return x.permute(dims); }
inline Tensor narrow(const Tensor &x, int64_t dim, int64_t start, int64_t length) { return x.narrow(dim, start, length); }
inline Tensor select(const Tensor &x, int64_t dim, int64_t index) { return x.select(dim, index); }
inline std::vector<Tensor> chunk(const Tensor &x, int64_t many, int64_t dim = 0) { return x.chunk(many, dim); }
inline std::vector<Tensor> split(const Tensor &x, int64_t size, int64_t dim = 0) { return x.split(size, dim); }
inline Tensor clone(const Tensor &x) { return x.clone(); }
inline Tensor detach(const Tensor &x) { return x; }
inline int64_t numel(const Tensor &x) { return x.numel(); }
inline bool is_floating_point(const Tensor &x) { return x.is_floating_point(); }
inline bool equal(const Tensor &, const Tensor &) { assay::host_reads("equal"); }

ASSAY_FUNCTIONS
ASSAY_PAIR_FUNCTIONS

template <typename T> T ceil_div(T a, T b) { return (a + b - 1) / b; }
template <typename T> T round_up(T a, T b) { return ceil_div(a, b) * b; }

struct NoGradGuard {
    NoGradGuard() {}
};
struct AutoDispatchBelowAutograd {
    AutoDispatchBelowAutograd() {}
};

template <typename T> struct OpMathTypeOf {
    using type = T;
};
template <> struct OpMathTypeOf<c10::Half> {
    using type = float;
};
template <> struct OpMathTypeOf<c10::BFloat16> {
    using type = float;
};
using DimVector = c10::SmallVector<int64_t, 5>;

// Namespaces of PyTorch's in which nothing stands here: what is looked for there is named.
namespace detail {}
namespace indexing {
struct Slice { // of Tensor::index, an operator whose lists are taken for numbers
    template <typename... A> Slice(A &&...) {}
    operator int64_t() const { return 0; }
};
constexpr int64_t None = 0, Ellipsis = 0;
} // namespace indexing
namespace _ops {}
namespace native {}
namespace autocast {}

template <typename T> using opmath_type = typename OpMathTypeOf<T>::type;
template <typename T, bool on_device> struct AccumulateType {
    using type = std::conditional_t<std::is_integral_v<T>, int64_t, typename OpMathTypeOf<T>::type>;
};
template <typename T, bool on_device> using acc_type = typename AccumulateType<T, on_device>::type;

} // namespace at

namespace assay {
inline std::string in_words(const at::Tensor &) { return "a tensor"; }
} // namespace assay

namespace torch {
using namespace at;
using at::Tensor;
using Dtype = at::ScalarType;
using c10::nullopt;
using c10::optional;
using IntArrayRef = at::IntArrayRef;
namespace autograd {
using Variable = at::Tensor;
using variable_list = std::vector<at::Tensor>;

// A function with a backward, of which the forward is carried out.
struct AutogradContext {
    struct Kept {
        template <typename T> Kept &operator=(const T &) { return *this; }
        double toDouble() const { return 0; }
        int64_t toInt() const { return 0; }
        bool toBool() const { return false; }
        at::Tensor toTensor() const { return {}; }
    };
    struct KeptByName {
        Kept kept;
        Kept &operator[](const std::string &) { return kept; }
    } saved_data;
    void save_for_backward(const variable_list &) {}
    variable_list get_saved_variables() const { return {}; }
    void mark_non_differentiable(const variable_list &) {}
    void mark_dirty(const variable_list &) {}
    void set_materialize_grads(bool) {}
    bool needs_input_grad(size_t) const { return false; }
};
template <typename T> struct Function {
    template <typename X = T, typename... A> static auto apply(A &&...given) {
        AutogradContext context;
        return X::forward(&context, std::forward<A>(given)...);
    }
};
} // namespace autograd
namespace jit {}
namespace linalg {}
namespace special {}
namespace fft {}
namespace nn {
namespace init {}
namespace functional {
ASSAY_FUNCTIONS
}
} // namespace nn
struct NoGradGuard {
    NoGradGuard() {}
};

// What a text registers with PyTorch's dispatcher, which nothing here calls through.
struct Library {
    template <typename... A> Library &def(A &&...) { return *this; }
    template <typename... A> Library &impl(A &&...) { return *this; }
};
template <typename F> F dispatch(c10::DispatchKey, F function) { return function; }
} // namespace torch

#define TORCH_FN(function) (&function)
#define ASSAY_LIBRARY_(number, variable) [[maybe_unused]] static void assay_library_##number(torch::Library &variable)
#define ASSAY_LIBRARY(number, variable) ASSAY_LIBRARY_(number, variable)
#define TORCH_LIBRARY(its_name, variable) ASSAY_LIBRARY(__COUNTER__, variable)
#define TORCH_LIBRARY_FRAGMENT(its_name, variable) ASSAY_LIBRARY(__COUNTER__, variable)
#define TORCH_LIBRARY_IMPL(its_name, key, variable) ASSAY_LIBRARY(__COUNTER__, variable)

#ifdef HALF_OF_ASSAY
#include "assay_half.h"
#endif
#ifdef ACCESSORS_OF_ASSAY
#include "assay_accessors.h"
#endif
#ifdef DISPATCH_OF_ASSAY
#include "assay_dispatch.h"
#endif
