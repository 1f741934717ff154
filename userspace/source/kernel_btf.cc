// Copies types in the order in which BTF may refer to them: what a type contains first.
#include "source/kernel_btf.h"

#include <fcntl.h>
#include <linux/btf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cowprof {
namespace {

using Names = absl::flat_hash_set<absl::string_view>;

struct BtfDeleter {
  void operator()(btf* types) const { btf__free(types); }
};

// Libbpf takes NAME___SUFFIX for NAME.
absl::string_view WithoutFlavour(absl::string_view name) { return name.substr(0, name.rfind("___")); }

bool IsNamedKind(const btf_type* type) {
  return btf_is_composite(type) || btf_is_any_enum(type) || btf_is_typedef(type) || btf_is_int(type) ||
         btf_is_float(type);
}

class TypesCopy {
 public:
  TypesCopy(const btf& local, const btf& kernel) : kernel_(kernel), copy_(btf__new_empty()) {
    for (uint32_t id = 1; id < btf__type_cnt(&local); ++id) {
      const btf_type* type = btf__type_by_id(&local, id);
      if (IsNamedKind(type)) types_.insert(WithoutFlavour(btf__name_by_offset(&local, type->name_off)));
      if (!btf_is_composite(type)) continue;
      const btf_member* members = btf_members(type);
      for (int i = 0; i < btf_vlen(type); ++i) members_.insert(btf__name_by_offset(&local, members[i].name_off));
    }
    types_.erase("");
  }

  absl::Status CopyAll() {
    if (copy_ == nullptr) return absl::ErrnoToStatus(errno, "make a table of types");
    for (uint32_t id = 1; id < btf__type_cnt(&kernel_); ++id) {
      const btf_type* type = btf__type_by_id(&kernel_, id);
      if (IsNamedKind(type) && types_.contains(WithoutFlavour(NameAt(type->name_off)))) Copy(id);
    }
    return error_ < 0 ? absl::ErrnoToStatus(-error_, "copy the kernel's types") : absl::OkStatus();
  }

  absl::Status WriteTo(int file) const {
    uint32_t bytes = 0;
    const void* raw = btf__raw_data(copy_.get(), &bytes);
    if (raw == nullptr) return absl::ErrnoToStatus(errno, "lay out the kernel's types");
    if (write(file, raw, bytes) != static_cast<ssize_t>(bytes))
      return absl::ErrnoToStatus(errno, "write the kernel's types to memory");
    return absl::OkStatus();
  }

 private:
  const char* NameAt(uint32_t offset) const { return btf__name_by_offset(&kernel_, offset); }

  // Keeps the first error.
  int Checked(int id) {
    if (id < 0 && error_ == 0) error_ = id;
    return id < 0 ? 0 : id;
  }

  // The id of the copy; 0: void.
  int Copy(uint32_t id) {
    if (id == 0) return 0;
    if (const auto known = copied_.find(id); known != copied_.end()) return known->second;
    const int copy = Checked(CopyNew(btf__type_by_id(&kernel_, id)));
    copied_[id] = copy;
    return copy;
  }

  int CopyNew(const btf_type* type) {
    const char* name = NameAt(type->name_off);
    btf* to = copy_.get();
    switch (btf_kind(type)) {
      case BTF_KIND_INT:
        return btf__add_int(to, name, type->size, btf_int_encoding(type));
      case BTF_KIND_FLOAT:
        return btf__add_float(to, name, type->size);
      case BTF_KIND_PTR:
        return btf__add_ptr(to, 0);
      case BTF_KIND_TYPEDEF:
        return btf__add_typedef(to, name, Copy(type->type));
      case BTF_KIND_ARRAY: {
        const auto* array = btf_array(type);
        const int index = Copy(array->index_type), element = Copy(array->type);
        return btf__add_array(to, index, element, array->nelems);
      }
      case BTF_KIND_ENUM:
      case BTF_KIND_ENUM64:
        return CopyEnum(type, name);
      case BTF_KIND_STRUCT:
      case BTF_KIND_UNION:
        return CopyComposite(type, name);
      case BTF_KIND_FWD:
        return btf__add_fwd(to, name, btf_kflag(type) ? BTF_FWD_UNION : BTF_FWD_STRUCT);
      default:  // qualifiers and tags, which libbpf skips
        return Copy(type->type);
    }
  }

  int CopyEnum(const btf_type* type, const char* name) {
    btf* to = copy_.get();
    if (btf_is_enum64(type)) {
      const int id = btf__add_enum64(to, name, type->size, btf_kflag(type));
      const auto* values = btf_enum64(type);
      for (int i = 0; i < btf_vlen(type); ++i)
        Checked(btf__add_enum64_value(to, NameAt(values[i].name_off), btf_enum64_value(&values[i])));
      return id;
    }
    const int id = btf__add_enum(to, name, type->size);
    const auto* values = btf_enum(type);
    for (int i = 0; i < btf_vlen(type); ++i) {
      const auto value = btf_kflag(type) ? static_cast<int64_t>(values[i].val)
                                         : static_cast<int64_t>(static_cast<uint32_t>(values[i].val));
      Checked(btf__add_enum_value(to, NameAt(values[i].name_off), value));
    }
    return id;
  }

  // An unnamed member has the members of its type.
  int CopyComposite(const btf_type* type, const char* name) {
    struct Member {
      const btf_member* member;
      uint32_t bit_offset, bits;
      int type;
    };
    std::vector<Member> wanted;
    const btf_member* members = btf_members(type);
    for (int i = 0; i < btf_vlen(type); ++i) {
      if (!members_.contains(NameAt(members[i].name_off))) continue;
      wanted.push_back(
          {&members[i], btf_member_bit_offset(type, i), btf_member_bitfield_size(type, i), Copy(members[i].type)});
    }
    btf* to = copy_.get();
    const int id = btf_is_union(type) ? btf__add_union(to, name, type->size) : btf__add_struct(to, name, type->size);
    for (const Member& one : wanted)
      Checked(btf__add_field(to, NameAt(one.member->name_off), one.type, one.bit_offset, one.bits));
    return id;
  }

  const btf& kernel_;
  const std::unique_ptr<btf, BtfDeleter> copy_;
  Names types_, members_{""};
  absl::flat_hash_map<uint32_t, int> copied_;  // by the kernel's id
  int error_ = 0;
};

// The file can be mapped since 6.16; to read it takes a system call for each of 1,300 pages. Null if it can't be.
btf* MapKernelBtf() {
  const Fd file(open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC));
  struct stat stat;
  if (!file.ok() || fstat(file.fd(), &stat) != 0 || stat.st_size == 0) return nullptr;
  void* types = mmap(nullptr, stat.st_size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (types == MAP_FAILED) return nullptr;
  btf* kernel = btf__new(types, stat.st_size);  // a copy
  munmap(types, stat.st_size);
  return kernel;
}

}  // namespace

KernelBtf ReadKernelBtf() {
  btf* kernel = MapKernelBtf();
  if (kernel == nullptr) kernel = btf__load_vmlinux_btf();
  return kernel == nullptr ? nullptr : KernelBtf(kernel, BtfDeleter());
}

TypesFile::TypesFile()
    : memory_(memfd_create("cowprof-types", MFD_CLOEXEC)),
      path_(memory_.ok() ? absl::StrCat("/proc/self/fd/", memory_.fd()) : "/sys/kernel/btf/vmlinux") {}

absl::Status TypesFile::Write(const btf& local, const btf& kernel) const {
  return memory_.ok() ? WriteTypesNamedIn(local, kernel, memory_.fd()) : absl::OkStatus();
}

absl::Status WriteTypesNamedIn(const btf& local, const btf& kernel, int file) {
  TypesCopy copy(local, kernel);
  if (absl::Status status = copy.CopyAll(); !status.ok()) return status;
  return copy.WriteTo(file);
}

}  // namespace cowprof
