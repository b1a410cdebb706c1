// cuGetErrorName and cuGetErrorString. Names come from cuda.h (sim/names.cmake).
#include <cuda.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

extern "C" {
struct KruxSimErrorName {
  int number;
  const char* name;
};
extern const KruxSimErrorName kKruxSimErrorNames[];
}

namespace {

struct Text {
  CUresult error;
  const char* text;
};

// The driver's words, where programs are known to print them; others are said from their name.
constexpr Text kTexts[] = {
    {CUDA_SUCCESS, "no error"},
    {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
    {CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"},
    {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "device not ready"},
    {CUDA_ERROR_NOT_SUPPORTED, "operation not supported"},
    {CUDA_ERROR_NOT_PERMITTED, "operation not permitted"},
    {CUDA_ERROR_UNKNOWN, "unknown error"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"},
};

std::map<int, std::string>& Texts() {
  static auto* texts = [] {
    auto* made = new std::map<int, std::string>;
    for (const KruxSimErrorName* row = kKruxSimErrorNames; row->name != nullptr; ++row) {
      std::string text = row->name;
      text.erase(0, text.rfind("CUDA_ERROR_", 0) == 0 ? 11 : 0);
      std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
        return c == '_' ? ' ' : static_cast<char>(std::tolower(c));
      });
      (*made)[row->number] = text;
    }
    for (const Text& row : kTexts) (*made)[row.error] = row.text;
    return made;
  }();
  return *texts;
}

}  // namespace

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = nullptr;
  for (const KruxSimErrorName* row = kKruxSimErrorNames; row->name != nullptr; ++row) {
    if (row->number == static_cast<int>(error)) *name = row->name;
  }
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = Texts().find(static_cast<int>(error));
  *text = found == Texts().end() ? nullptr : found->second.c_str();
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
