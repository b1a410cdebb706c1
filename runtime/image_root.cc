#include "runtime/image_root.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <deque>
#include <vector>

#include "common/file.h"

namespace krux::runtime {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel
constexpr size_t kMaxComponents = 4096;

std::deque<std::string> Split(std::string_view path) {
  std::deque<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return parts;
}

// One walk from the root of an image.
class Walk {
 public:
  Walk(int root, std::string_view path) : root_(root), asked_(path), pending_(Split(path)) {}

  Result<ImageRoot::Place> Run() {
    while (!pending_.empty()) {
      const std::string part = std::move(pending_.front());
      pending_.pop_front();
      KRUX_RETURN_IF_ERROR(Step(part));
    }
    return Finish();
  }

 private:
  struct Level {
    std::string name;
    UniqueFd fd;
  };

  Error Refused(const std::string& why) const {
    return Error{ErrorCode::kInvalidArgument, "path " + asked_ + " of the image " + why};
  }
  int Top() const { return levels_.empty() ? root_ : levels_.back().fd.get(); }

  Status Step(const std::string& part) {
    if (missing_) {
      if (part == "..") return Refused("leads through a folder that does not exist");
      levels_.push_back({part, UniqueFd()});
      return Ok();
    }
    if (part == "..") {
      if (!levels_.empty()) levels_.pop_back();
      return Ok();
    }
    UniqueFd fd(openat(Top(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.valid() && errno != ENOENT) {
      return ErrnoError(errno, "looking at " + asked_ + " of the image");
    }
    if (!fd.valid()) {
      missing_ = true;
      levels_.push_back({part, UniqueFd()});
      return Ok();
    }
    struct stat about{};
    if (fstat(fd.get(), &about) != 0) return ErrnoError(errno, "looking at " + asked_);
    if (S_ISLNK(about.st_mode)) return Follow(fd.get());
    levels_.push_back({part, std::move(fd)});
    return Ok();
  }

  Status Follow(int link) {
    through_link_ = true;
    if (++links_ > kMaxLinks) return Refused("has too many symbolic links");
    char target[PATH_MAX];
    const ssize_t size = readlinkat(link, "", target, sizeof target);
    if (size < 0) return ErrnoError(errno, "reading a link of the image");
    const std::string_view text(target, static_cast<size_t>(size));
    if (!text.empty() && text[0] == '/') levels_.clear();
    std::deque<std::string> parts = Split(text);
    if (parts.size() + pending_.size() > kMaxComponents) return Refused("is too long");
    pending_.insert(pending_.begin(), parts.begin(), parts.end());
    return Ok();
  }

  Result<ImageRoot::Place> Finish() {
    ImageRoot::Place place;
    place.through_link = through_link_;
    for (const Level& level : levels_) place.path += "/" + level.name;
    if (place.path.empty()) place.path = "/";
    if (missing_) return place;
    place.fd =
        levels_.empty() ? UniqueFd(fcntl(root_, F_DUPFD_CLOEXEC, 0)) : std::move(levels_.back().fd);
    struct stat about{};
    if (fstat(place.fd.get(), &about) != 0) return ErrnoError(errno, "looking at " + asked_);
    place.type = S_ISREG(about.st_mode)   ? ImageRoot::Type::kFile
                 : S_ISDIR(about.st_mode) ? ImageRoot::Type::kFolder
                                          : ImageRoot::Type::kOther;
    return place;
  }

  const int root_;
  const std::string asked_;
  std::deque<std::string> pending_;
  std::vector<Level> levels_;  // the folders passed so far; ".." goes back, never above the root
  int links_ = 0;
  bool missing_ = false;
  bool through_link_ = false;
};

}  // namespace

Result<ImageRoot> ImageRoot::Open(const std::string& host_path) {
  UniqueFd root(open(host_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return ErrnoError(errno, "opening the container's root " + host_path);
  return ImageRoot(std::move(root));
}

Result<ImageRoot::Place> ImageRoot::Locate(std::string_view path) const {
  return Walk(root_.get(), path).Run();
}

Result<std::string> ImageRoot::Read(const Place& place, size_t max_bytes) {
  if (place.type == Type::kMissing) {
    return Error{ErrorCode::kNotFound, place.path + " is not in the image"};
  }
  if (place.type != Type::kFile) {
    return Error{ErrorCode::kInvalidArgument, place.path + " of the image is not a regular file"};
  }
  // The O_PATH descriptor names the very file that was looked at.
  return ReadFile("/proc/self/fd/" + std::to_string(place.fd.get()), max_bytes)
      .With(place.path + " of the image");
}

}  // namespace krux::runtime
