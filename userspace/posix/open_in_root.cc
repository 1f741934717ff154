// Walks the path component by component with O_PATH descriptors and resolves symbolic links itself.
#include "posix/open_in_root.h"

#include <fcntl.h>
#include <limits.h>

#include <vector>

#include "absl/strings/str_split.h"

namespace cowprof {
namespace {

constexpr int kMostLinks = 40;  // the kernel's own bound, MAXSYMLINKS

// Reversed, so that the next component to open is the last element.
void AddNames(absl::string_view path, std::vector<std::string>* names) {
  const std::vector<std::string> more = absl::StrSplit(path, '/', absl::SkipEmpty());
  names->insert(names->end(), more.rbegin(), more.rend());
}

}  // namespace

Fd OpenFolderInRoot(const std::string& root, absl::string_view path) {
  std::vector<Fd> folders;  // from the root to the current folder; ".." pops one
  folders.emplace_back(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::vector<std::string> names;
  AddNames(path, &names);
  for (int links = 0; !names.empty() && folders.back().ok();) {
    const std::string name = std::move(names.back());
    names.pop_back();
    if (name == ".") continue;
    if (name == "..") {
      if (folders.size() > 1) folders.pop_back();
      continue;
    }
    Fd next(openat(folders.back().fd(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    char target[PATH_MAX];
    const ssize_t length = next.ok() ? readlinkat(next.fd(), "", target, sizeof(target)) : -1;
    if (length < 0) {  // not a link
      folders.push_back(std::move(next));
      continue;
    }
    if (++links > kMostLinks) return Fd();
    if (target[0] == '/') folders.resize(1);
    AddNames({target, static_cast<size_t>(length)}, &names);
  }
  if (!folders.back().ok()) return Fd();  // errno says why
  return Fd(openat(folders.back().fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace cowprof
