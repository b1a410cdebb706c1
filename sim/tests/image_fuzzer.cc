// Any bytes as a fat binary, a cubin or PTX.
#include "sim/cuda/image.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  krux::sim::Image image;
  krux::sim::ReadFatbin(bytes, 90, &image);
  krux::sim::ReadCubin(bytes, &image);
  krux::sim::ReadPtx(bytes, 90, &image);
  return 0;
}
