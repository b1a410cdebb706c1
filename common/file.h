// Files, as Krux reads and writes them: bounded reads and atomic, durable writes.
// Who calls it: daemons, the runtime, the command line. Thread-safe (no state).
#ifndef KRUX_COMMON_FILE_H_
#define KRUX_COMMON_FILE_H_

#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/fd.h"
#include "common/result.h"

namespace krux {

// The whole file, or kResourceExhausted when it is larger than max_bytes (files of others are
// hostile). Works for /proc files, whose size reads as 0.
Result<std::string> ReadFile(const std::string& path, size_t max_bytes);

// Replaces `path` in one step that survives a power cut: temporary file in the same folder, fsync,
// rename, fsync of the folder. A reader sees the old text or the new one, never a part.
Status WriteFileDurably(const std::string& path, std::string_view text, mode_t mode);

// As above without the fsyncs: for files under /run that need not outlive a reboot.
Status WriteFileAtomically(const std::string& path, std::string_view text, mode_t mode);

// mkdir -p. Folders that exist are left as they are.
Status MakeDirectories(const std::string& path, mode_t mode);

// All of `data` to a descriptor, across short writes and EINTR.
Status WriteAll(int fd, std::string_view data);

}  // namespace krux

#endif  // KRUX_COMMON_FILE_H_
