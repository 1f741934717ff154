// A file system that does what network file systems do: close(2) may say that what was written is lost, and rename(2)
// knows no flags. Served by FUSE, from a process of its own.
#ifndef COWPROF_TESTS_UNIT_NETWORK_DISK_H_
#define COWPROF_TESTS_UNIT_NETWORK_DISK_H_

#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "skip.h"

namespace cowprof {

// The files of one folder, in memory.
class NetworkFiles {
 public:
  explicit NetworkFiles(const std::atomic<int>* close_error, int lock_error)
      : close_error_(close_error), lock_error_(lock_error) {}

  // Answers requests until the file system is gone.
  void Serve(int device) {
    std::vector<char> request(1 << 18);
    for (;;) {
      const ssize_t bytes = read(device, request.data(), request.size());
      if (bytes < 0 && (errno == EINTR || errno == ENOENT)) continue;
      if (bytes <= 0) return;
      fuse_in_header in;
      memcpy(&in, request.data(), sizeof(in));
      if (in.opcode == FUSE_FORGET || in.opcode == FUSE_BATCH_FORGET || in.opcode == FUSE_INTERRUPT) continue;
      answer_.clear();
      const int error = Do(in, request.data() + sizeof(in));
      if (error != 0) answer_.clear();
      const fuse_out_header out = {
          .len = static_cast<uint32_t>(sizeof(out) + answer_.size()), .error = -error, .unique = in.unique};
      answer_.insert(0, reinterpret_cast<const char*>(&out), sizeof(out));
      static_cast<void>(!write(device, answer_.data(), answer_.size()));
    }
  }

 private:
  struct File {
    std::string bytes;
    uint32_t mode = S_IFREG | 0600, uid = 0, gid = 0, links = 1;
  };

  template <typename T>
  void Put(const T& part) {
    answer_.append(reinterpret_cast<const char*>(&part), sizeof(part));
  }
  template <typename T>
  static T As(const char* body) {
    T part;
    memcpy(&part, body, sizeof(part));
    return part;
  }

  fuse_attr AttributesOf(uint64_t node) {
    if (node == FUSE_ROOT_ID) return {.ino = node, .mode = S_IFDIR | 0755, .nlink = 2, .blksize = 4096};
    const File& file = files_[node];
    return {.ino = node,
            .size = file.bytes.size(),
            .mode = file.mode,
            .nlink = file.links,
            .uid = file.uid,
            .gid = file.gid,
            .blksize = 4096};
  }
  // Nothing is cached: each look at a file is a request.
  void PutEntry(uint64_t node) { Put(fuse_entry_out{.nodeid = node, .attr = AttributesOf(node)}); }
  void PutAttributes(uint64_t node) { Put(fuse_attr_out{.attr = AttributesOf(node)}); }

  void Remove(const std::string& name) {
    const auto found = names_.find(name);
    if (found == names_.end()) return;
    --files_[found->second].links;
    names_.erase(found);
  }

  // Returns an errno value.
  int Do(const fuse_in_header& in, const char* body) {
    switch (in.opcode) {
      case FUSE_INIT:
        Put(fuse_init_out{.major = FUSE_KERNEL_VERSION,
                          .minor = 31,
                          .flags = lock_error_ != 0 ? uint32_t{FUSE_FLOCK_LOCKS} : 0,
                          .max_write = 1 << 16,
                          .time_gran = 1});
        return 0;
      case FUSE_LOOKUP:
        if (!names_.contains(body)) return ENOENT;
        PutEntry(names_[body]);
        return 0;
      case FUSE_CREATE: {
        const auto wanted = As<fuse_create_in>(body);
        const uint64_t node = next_++;
        files_[node] = {.mode = wanted.mode & ~wanted.umask, .uid = in.uid, .gid = in.gid};
        names_[body + sizeof(wanted)] = node;
        PutEntry(node);
        Put(fuse_open_out{});
        return 0;
      }
      case FUSE_GETATTR:
        PutAttributes(in.nodeid);
        return 0;
      case FUSE_SETATTR: {
        const auto wanted = As<fuse_setattr_in>(body);
        File& file = files_[in.nodeid];
        if ((wanted.valid & FATTR_SIZE) != 0) file.bytes.resize(wanted.size);
        if ((wanted.valid & FATTR_MODE) != 0) file.mode = wanted.mode;
        PutAttributes(in.nodeid);
        return 0;
      }
      case FUSE_WRITE: {
        const auto wanted = As<fuse_write_in>(body);
        std::string& file = files_[in.nodeid].bytes;
        file.resize(std::max<size_t>(file.size(), wanted.offset + wanted.size));
        file.replace(wanted.offset, wanted.size, body + sizeof(wanted), wanted.size);
        Put(fuse_write_out{.size = wanted.size});
        return 0;
      }
      case FUSE_READ: {
        const auto wanted = As<fuse_read_in>(body);
        const std::string& file = files_[in.nodeid].bytes;
        if (wanted.offset < file.size()) answer_ = file.substr(wanted.offset, wanted.size);
        return 0;
      }
      case FUSE_LINK: {
        const auto wanted = As<fuse_link_in>(body);
        const std::string name = body + sizeof(wanted);
        if (names_.contains(name)) return EEXIST;
        names_[name] = wanted.oldnodeid;
        ++files_[wanted.oldnodeid].links;
        PutEntry(wanted.oldnodeid);
        return 0;
      }
      case FUSE_RENAME: {
        const std::string from = body + sizeof(fuse_rename_in), to = body + sizeof(fuse_rename_in) + from.size() + 1;
        const uint64_t node = names_[from];
        Remove(to);
        names_.erase(from);
        names_[to] = node;
        return 0;
      }
      case FUSE_UNLINK:
        Remove(body);
        return 0;
      case FUSE_READDIR: {
        if (As<fuse_read_in>(body).offset != 0) return 0;
        uint64_t offset = 0;
        for (const auto& [name, node] : names_) {
          Put(fuse_dirent{.ino = node, .off = ++offset, .namelen = static_cast<uint32_t>(name.size())});
          answer_ += name;
          answer_.resize(FUSE_DIRENT_ALIGN(answer_.size()));
        }
        return 0;
      }
      case FUSE_OPEN:
      case FUSE_OPENDIR:
        Put(fuse_open_out{});
        return 0;
      case FUSE_FLUSH:
        return *close_error_;
      case FUSE_SETLK:
        return As<fuse_lk_in>(body).lk.type == F_UNLCK ? 0 : lock_error_;
      case FUSE_RELEASE:
      case FUSE_RELEASEDIR:
        return 0;
      default:
        return ENOSYS;  // also to FUSE_RENAME2: the kernel makes EINVAL of it
    }
  }

  const std::atomic<int>* close_error_;
  const int lock_error_;
  std::string answer_;
  std::map<std::string, uint64_t> names_;
  std::map<uint64_t, File> files_;
  uint64_t next_ = FUSE_ROOT_ID + 1;
};

// Mounts it on a folder, for as long as it lives.
class NetworkDisk {
 public:
  // `lock_error`: of each flock(2); 0: the kernel locks.
  explicit NetworkDisk(const std::string& folder, int lock_error = 0)
      : folder_(folder),
        close_error_(new (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                         std::atomic<int>(0)) {
    const int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    const std::string options =
        absl::StrCat("fd=", device, ",rootmode=40000,user_id=", geteuid(), ",group_id=", getegid());
    mounted_ = device >= 0 && mount("none", folder.c_str(), "fuse", 0, options.c_str()) == 0;
    if (mounted_ && (server_ = fork()) == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      NetworkFiles(close_error_, lock_error).Serve(device);
      _exit(0);
    }
    close(device);
  }
  NetworkDisk(const NetworkDisk&) = delete;
  NetworkDisk& operator=(const NetworkDisk&) = delete;
  ~NetworkDisk() {
    if (!mounted_) return;
    umount2(folder_.c_str(), MNT_DETACH);
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
  }

  // If so, the test is skipped.
  bool IsLacking() const { return Lacks("FUSE", mounted_, "/dev/fuse is missing, or no right to mount"); }
  // From now on close(2) ends with this error; 0: with none.
  void FailAtClose(int error) { *close_error_ = error; }

 private:
  const std::string folder_;
  std::atomic<int>* const close_error_;
  bool mounted_ = false;
  pid_t server_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_NETWORK_DISK_H_
