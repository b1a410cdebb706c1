#include "common/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace krux {
namespace {

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status SyncFolder(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return ErrnoError(errno, "syncing folder " + folder);
  return Ok();
}

Status Replace(const std::string& path, std::string_view text, mode_t mode, bool durable) {
  std::string temporary = path + ".XXXXXX";
  UniqueFd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "creating a temporary file beside " + path);
  const auto fail = [&](Error error) {
    unlink(temporary.c_str());
    return error;
  };
  if (auto written = WriteAll(fd.get(), text); !written) {
    return fail(written.error().With("writing " + temporary));
  }
  if (fchmod(fd.get(), mode) != 0) return fail(ErrnoError(errno, "setting the mode of " + path));
  if (durable && fsync(fd.get()) != 0) return fail(ErrnoError(errno, "syncing " + temporary));
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    return fail(ErrnoError(errno, "replacing " + path));
  }
  return durable ? SyncFolder(ParentOf(path)) : Ok();
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "opening " + path);
  std::string text;
  char buffer[16384];
  while (true) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "reading " + path);
    if (n == 0) return text;
    if (text.size() + static_cast<size_t>(n) > max_bytes) {
      return Error{ErrorCode::kResourceExhausted,
                   path + " is larger than the " + std::to_string(max_bytes) + " bytes allowed"};
    }
    text.append(buffer, static_cast<size_t>(n));
  }
}

Status WriteFileDurably(const std::string& path, std::string_view text, mode_t mode) {
  return Replace(path, text, mode, /*durable=*/true);
}

Status WriteFileAtomically(const std::string& path, std::string_view text, mode_t mode) {
  return Replace(path, text, mode, /*durable=*/false);
}

Status MakeDirectories(const std::string& path, mode_t mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
      return ErrnoError(errno, "creating folder " + part);
    }
    if (end == std::string::npos) return Ok();
  }
}

Status WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "write");
    data.remove_prefix(static_cast<size_t>(n));
  }
  return Ok();
}

}  // namespace krux
