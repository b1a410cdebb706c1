// The reader of PTX text: any text that ends.
#include <cstddef>
#include <cstdint>
#include <string>

#include "limiter/memory/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  krux::limiter::VariableBytesOfPtx(text.c_str());
  return 0;
}
