// The types that are left, as libbpf finds them: by name, member and enumerator.
#include "source/kernel_btf.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>

#include "posix/fd.h"
#include "skip.h"

namespace cowprof {
namespace {

struct Freed {
  void operator()(btf* types) const { btf__free(types); }
};
using Types = std::unique_ptr<btf, Freed>;

// Kinds and sizes that the kernel might have; an int is always 1.
Types WithInt() {
  Types types(btf__new_empty());
  REQUIRE(btf__add_int(types.get(), "int", 4, BTF_INT_SIGNED) == 1);
  return types;
}

Types Reduce(const btf* local, const btf* kernel) {
  Fd file(memfd_create("types", MFD_CLOEXEC));
  REQUIRE(WriteTypesNamedIn(*local, *kernel, file.fd()).ok());
  Types reduced(btf__parse_raw(("/proc/self/fd/" + std::to_string(file.fd())).c_str()));
  REQUIRE(reduced != nullptr);
  return reduced;
}

const btf_type* Find(const Types& types, const char* name, uint32_t kind) {
  const int id = btf__find_by_name_kind(types.get(), name, kind);
  return id < 0 ? nullptr : btf__type_by_id(types.get(), id);
}

std::string NameOf(const Types& types, uint32_t offset) { return btf__name_by_offset(types.get(), offset); }

TEST_CASE("Kernel BTF: keeps the members that are named, where they are, and the size") {
  const Types kernel = WithInt(), local = WithInt();
  const int inner = btf__add_struct(kernel.get(), "", 8);  // unnamed, as the kernel's groups of members
  btf__add_field(kernel.get(), "other", 1, 0, 0);
  btf__add_field(kernel.get(), "flag", 1, 35, 3);
  const int pointer = btf__add_ptr(kernel.get(), btf__add_fwd(kernel.get(), "far", BTF_FWD_STRUCT));
  btf__add_struct(kernel.get(), "task", 96);
  btf__add_field(kernel.get(), "state", 1, 0, 0);
  btf__add_field(kernel.get(), "", inner, 64, 0);
  btf__add_field(kernel.get(), "parent", pointer, 640, 0);
  btf__add_struct(kernel.get(), "stranger", 4);
  btf__add_field(kernel.get(), "flag", 1, 0, 0);
  btf__add_struct(local.get(), "task___old", 16);  // a flavour of it
  btf__add_field(local.get(), "flag", 1, 0, 0);
  btf__add_field(local.get(), "parent", 1, 32, 0);

  const Types reduced = Reduce(local.get(), kernel.get());
  CHECK(Find(reduced, "stranger", BTF_KIND_STRUCT) == nullptr);
  const btf_type* task = Find(reduced, "task", BTF_KIND_STRUCT);
  REQUIRE(task != nullptr);
  CHECK(task->size == 96);
  REQUIRE(btf_vlen(task) == 2);
  CHECK(NameOf(reduced, btf_members(task)[1].name_off) == "parent");
  CHECK(btf_member_bit_offset(task, 1) == 640);
  CHECK(btf_is_ptr(btf__type_by_id(reduced.get(), btf_members(task)[1].type)));
  const btf_type* group = btf__type_by_id(reduced.get(), btf_members(task)[0].type);
  REQUIRE(btf_vlen(group) == 1);
  CHECK(NameOf(reduced, btf_members(group)[0].name_off) == "flag");
  CHECK(btf_member_bit_offset(group, 0) == 35);
  CHECK(btf_member_bitfield_size(group, 0) == 3);
}

TEST_CASE("Kernel BTF: keeps all types of one name, arrays, and enumerators with their values") {
  const Types kernel = WithInt(), local = WithInt();
  for (const int size : {8, 16}) btf__add_struct(kernel.get(), "twice", size);
  const int array = btf__add_array(kernel.get(), 1, 1, 7);
  btf__add_union(kernel.get(), "both", 28);
  btf__add_field(kernel.get(), "many", array, 0, 0);
  btf__add_enum(kernel.get(), "kind", 4);
  btf__add_enum_value(kernel.get(), "KIND_LOW", -3);
  btf__add_enum_value(kernel.get(), "KIND_HIGH", 211);
  btf__add_enum64(kernel.get(), "wide", 8, false);
  btf__add_enum64_value(kernel.get(), "WIDE", uint64_t{1} << 40);
  for (const char* name : {"twice", "absent"}) btf__add_struct(local.get(), name, 8);
  btf__add_union(local.get(), "both", 4);
  btf__add_field(local.get(), "many", 1, 0, 0);
  for (const char* name : {"kind", "wide"}) btf__add_enum(local.get(), name, 4);

  const Types reduced = Reduce(local.get(), kernel.get());
  int twice = 0;
  for (uint32_t id = 1; id < btf__type_cnt(reduced.get()); ++id)
    twice += NameOf(reduced, btf__type_by_id(reduced.get(), id)->name_off) == "twice";
  CHECK(twice == 2);
  CHECK(Find(reduced, "absent", BTF_KIND_STRUCT) == nullptr);
  const btf_type* both = Find(reduced, "both", BTF_KIND_UNION);
  REQUIRE((both != nullptr && btf_vlen(both) == 1));
  CHECK(btf__resolve_size(reduced.get(), btf_members(both)[0].type) == 28);
  const btf_type* kind = Find(reduced, "kind", BTF_KIND_ENUM);
  REQUIRE((kind != nullptr && btf_vlen(kind) == 2));
  CHECK(btf_enum(kind)[0].val == -3);
  CHECK(btf_enum(kind)[1].val == 211);
  const btf_type* wide = Find(reduced, "wide", BTF_KIND_ENUM64);
  REQUIRE(wide != nullptr);
  CHECK(btf_enum64_value(btf_enum64(wide)) == uint64_t{1} << 40);
}

TEST_CASE("Kernel BTF: what is mapped is what libbpf reads") {
  const Types read(btf__load_vmlinux_btf());
  if (Lacks("the kernel's BTF", read != nullptr, "libbpf finds none")) return;
  const KernelBtf mapped = ReadKernelBtf();
  REQUIRE(mapped != nullptr);
  uint32_t bytes[2];
  const void* types[] = {btf__raw_data(read.get(), &bytes[0]), btf__raw_data(mapped.get(), &bytes[1])};
  REQUIRE(bytes[0] == bytes[1]);
  CHECK(memcmp(types[0], types[1], bytes[0]) == 0);
}

}  // namespace
}  // namespace cowprof
