// The kernel's map of physical memory, found on the kernel that runs. Needs root.
#include <catch2/catch.hpp>

#include "skip.h"
#include "source/bpf_direct_map.h"
#include "source/bpf_loading.h"

namespace cowprof {
namespace {

constexpr uint64_t kGiB = 1 << 30;

uint64_t FindIn(const cowprof_probes& skeleton) {
  const absl::StatusOr<std::string> tasks = RunIterator(skeleton.progs.list_tasks);
  REQUIRE(tasks.ok());
  return skeleton.bss->direct_map.base;
}

// The probes have compared a word of a page of this process with what they read there.
TEST_CASE("live: the direct map is found, unless the probes were told of another page") {
  if (LacksRoot()) return;
#ifndef __x86_64__
  if (Lacks("x86-64", false, "the probes know no other page tables")) return;
#endif
  Skeleton skeleton;
  REQUIRE(LoadProbes({.signals = false}, nullptr, &skeleton).ok());
  auto& told = skeleton->bss->direct_map;
  CHECK(FindIn(*skeleton) == 0);  // they were told nothing
  {
    const DirectMapHint hint(*skeleton);
    ++told.word;
    CHECK(FindIn(*skeleton) == 0);
  }
  {
    const DirectMapHint hint(*skeleton);
    told.frame += 7;  // so that no struct page is where they look
    CHECK(FindIn(*skeleton) == 0);
  }
  uint64_t base = 0;
  {
    const DirectMapHint hint(*skeleton);
    base = FindIn(*skeleton);
  }
  REQUIRE(base != 0);
  CHECK(base % kGiB == 0);
  CHECK(FindIn(*skeleton) == base);  // later runs leave it
  {
    // The same word at the kernel's own address of the page: a program that is watched may name such an address, too.
    const DirectMapHint hint(*skeleton);
    told.address = base + told.frame * 4096;
    told.base = 0;
    CHECK(FindIn(*skeleton) == 0);
  }
  {
    const DirectMapHint hint(*skeleton);
    told.address |= 1ull << 60;  // not canonical
    told.base = 0;
    CHECK(FindIn(*skeleton) == 0);
  }
}

}  // namespace
}  // namespace cowprof
