// Where this host's loader finds shared libraries: the folders named by /etc/ld.so.cache, then the
// usual ones and those of driver containers. Called by driver.cc. Function without state.
#ifndef KRUX_GPU_LIBRARY_FOLDERS_H_
#define KRUX_GPU_LIBRARY_FOLDERS_H_

#include <string>
#include <string_view>
#include <vector>

namespace krux::gpu {

// Folders without `root`, each once, in order of preference. A cache that is missing or damaged
// only shortens the list.
std::vector<std::string> LibraryFolders(const std::string& root);

// The folders in which an ld.so.cache of glibc 2.2 or newer lists the library `name` for x86-64.
std::vector<std::string> FoldersInCache(std::string_view cache, std::string_view name);

}  // namespace krux::gpu

#endif  // KRUX_GPU_LIBRARY_FOLDERS_H_
