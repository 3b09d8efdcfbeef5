/*
 * layoutprobe.cpp: what an extension reads of a tensor through inline functions of torch's
 * headers, which are compiled into it: facts() for layout.py to compare with what torch itself
 * says. Where a torch release has moved members, this one returns other numbers or crashes.
 */
#include <torch/extension.h>
#include <torch/version.h>

#define SINCE(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

static int64_t is_dense(const at::TensorImpl &impl)
{
#if SINCE(9)
    return impl.is_non_overlapping_and_dense_or_false();
#else
    return impl.is_non_overlapping_and_dense();
#endif
}

/* A tensor that came from Python has its object there; before 2.10 nothing inline tells. */
static int64_t has_python_object(at::TensorImpl &impl)
{
#if SINCE(13)
    impl.pyobj_slot()->has_unique_reference();
#endif
#if SINCE(10)
    return impl.pyobj_slot()->load_pyobj() != nullptr;
#else
    return impl.unsafe_storage().unsafeGetStorageImpl() != nullptr;
#endif
}

std::map<std::string, int64_t> facts(const at::Tensor &tensor)
{
    at::TensorImpl &impl = *tensor.unsafeGetTensorImpl();
    c10::Storage storage = tensor.storage();
    return {{"dim", tensor.dim()},
            {"numel", tensor.numel()},
            {"size", tensor.size(0)},
            {"stride", tensor.stride(0)},
            {"storage_offset", tensor.storage_offset()},
            {"scalar_type", static_cast<int64_t>(tensor.scalar_type())},
            {"element_size", static_cast<int64_t>(tensor.dtype().itemsize())},
            {"is_contiguous", tensor.is_contiguous()},
            {"is_dense", is_dense(impl)},
            {"is_cpu", tensor.is_cpu()},
            {"device_index", tensor.get_device()},
            {"is_sparse", tensor.is_sparse()},
            {"requires_grad", tensor.requires_grad()},
            {"storage_nbytes", static_cast<int64_t>(storage.nbytes())},
            {"storage_use_count", static_cast<int64_t>(storage.use_count())},
            {"data_ptr", reinterpret_cast<int64_t>(tensor.data_ptr())},
            {"has_python_object", has_python_object(impl)},
            {"version", static_cast<int64_t>(impl.version_counter().current_version())}};
}

/* Raises with the type's name in its text, which torch hands over as a view of a string. */
void refuse(const at::Tensor &tensor)
{
    TORCH_CHECK(tensor.is_cuda(), "no CUDA tensor but ", tensor.dtype());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    module.def("facts", &facts);
    module.def("refuse", &refuse);
}
