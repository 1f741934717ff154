// A temporary folder of files that a test writes beside its assertions, so that a reader of /proc or cgroups sees
// another host than this one. Removed with its owner.
#ifndef COWPROF_TESTS_UNIT_FIXTURE_TREE_H_
#define COWPROF_TESTS_UNIT_FIXTURE_TREE_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace cowprof {

class FixtureTree {
 public:
  explicit FixtureTree(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "cowprof-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) abort();  // no test can work without it
    root_ = name;
  }
  FixtureTree(const FixtureTree&) = delete;
  FixtureTree& operator=(const FixtureTree&) = delete;
  ~FixtureTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  // Writes "/proc/12/stat" below the folder, creating directories as needed.
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  void Link(const std::string& path, const std::string& target) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::filesystem::create_symlink(target, root_ + path);
  }

  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_FIXTURE_TREE_H_
