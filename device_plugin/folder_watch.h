// Says when something in a folder changed: files made, moved in or removed, or the folder itself.
// Events only say "look again"; what is true is read from the file system, so a lost event costs no
// more than the caller's own slow poll.
//
// Thread rule: one thread.
#ifndef KRUX_DEVICE_PLUGIN_FOLDER_WATCH_H_
#define KRUX_DEVICE_PLUGIN_FOLDER_WATCH_H_

#include <sys/stat.h>

#include <string>

#include "common/fd.h"
#include "common/result.h"

namespace krux::device_plugin {

// What makes a file the same file: it changes when the file is removed and made again.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  timespec made{};  // its mtime; inode numbers alone are used again at once on some file systems
  bool exists() const { return inode != 0; }
  bool operator==(const FileIdentity& other) const {
    return device == other.device && inode == other.inode && made.tv_sec == other.made.tv_sec &&
           made.tv_nsec == other.made.tv_nsec;
  }
};
FileIdentity IdentityOf(const std::string& path);  // of the link itself; !exists() when none

class FolderWatch {
 public:
  explicit FolderWatch(std::string folder) : folder_(std::move(folder)) {}

  // Watches the folder as it is now, making it where it is missing. Call again whenever: does
  // nothing while the same folder is watched.
  Status Renew();

  // For poll(2); readable when something changed. Drain() empties it.
  int fd() const { return inotify_.get(); }
  void Drain();

 private:
  const std::string folder_;
  UniqueFd inotify_;
  ino_t watched_inode_ = 0;
  dev_t watched_device_ = 0;
};

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_FOLDER_WATCH_H_
