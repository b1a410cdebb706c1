// For tests of this module: a folder that goes away with its owner, and short ways to fill it.
#ifndef KRUX_RUNTIME_TESTING_TEMP_FOLDER_H_
#define KRUX_RUNTIME_TESTING_TEMP_FOLDER_H_

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace krux::runtime::testing {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "krux-runtime-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  std::string Folder(const std::string& name) const {
    std::filesystem::create_directories(path_ + "/" + name);
    return path_ + "/" + name;
  }
  std::string File(const std::string& name, const std::string& text) const {
    const std::string path = path_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string Program(const std::string& name, const std::string& text) const {
    const std::string path = File(name, text);
    chmod(path.c_str(), 0755);
    return path;
  }
  void Link(const std::string& target, const std::string& name) const {
    const std::string path = path_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    ASSERT_EQ(symlink(target.c_str(), path.c_str()), 0);
  }

 private:
  std::string path_;
};

inline std::string Slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace krux::runtime::testing

#endif  // KRUX_RUNTIME_TESTING_TEMP_FOLDER_H_
