#include "device_plugin/folder_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>

#include "common/file.h"

namespace krux::device_plugin {

FileIdentity IdentityOf(const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino, info.st_mtim};
}

Status FolderWatch::Renew() {
  KRUX_RETURN_IF_ERROR(MakeDirectories(folder_, 0750));
  struct stat info{};
  if (stat(folder_.c_str(), &info) != 0) return ErrnoError(errno, "looking at " + folder_);
  if (inotify_.valid() && info.st_ino == watched_inode_ && info.st_dev == watched_device_) {
    return Ok();
  }
  UniqueFd fd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd.valid()) return ErrnoError(errno, "inotify (raise fs.inotify.max_user_instances)");
  const uint32_t events = IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF |
                          IN_MOVE_SELF | IN_ONLYDIR;
  if (inotify_add_watch(fd.get(), folder_.c_str(), events) < 0) {
    return ErrnoError(errno, "watching " + folder_);
  }
  inotify_ = std::move(fd);
  watched_inode_ = info.st_ino;
  watched_device_ = info.st_dev;
  return Ok();
}

void FolderWatch::Drain() {
  alignas(inotify_event) char buffer[4096];
  while (read(inotify_.get(), buffer, sizeof buffer) > 0) {
  }
}

}  // namespace krux::device_plugin
