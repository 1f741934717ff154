// Counts the copies of one process from what its page map shows, look after look: a page that was shared and now is its
// own was copied in between, by it or by the other side. Pure. Keeps five bits a page.
#ifndef COWPROF_SOURCE_PAGEMAP_COPY_COUNTER_H_
#define COWPROF_SOURCE_PAGEMAP_COPY_COUNTER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "source/pagemap_entry.h"

namespace cowprof {

// Found by one look. Addresses of pages are told where it is clear whose copies they are.
struct NewCopies {
  uint64_t own = 0, parents = 0;  // pages copied by this process; by its parent
  uint64_t faults = 0;            // of this process, that its copies took
  std::vector<uint64_t> own_pages, parents_pages;
};

// By region: pages that the parent copied, as the looks at all of its workers say, and has not shared again since.
using ParentsCopies = absl::flat_hash_map<uint64_t, PageBits>;

class PagemapCopyCounter;

// The other processes that may hold a page. `siblings` returns which pages at an address a living sibling holds, by its
// HoldsOfLeft(). `of_parent`: the parent's own looks, which count what it copied of its own parent's pages.
struct Family {
  ParentsCopies* parent;
  absl::FunctionRef<PageBits(uint64_t address, const PageBits& pages)> siblings;
  const PagemapCopyCounter* of_parent = nullptr;
};

class PagemapCopyCounter {
 public:
  // `was_there`: it was forked before the recording began. What the first look finds may be old, and is not counted.
  PagemapCopyCounter() = default;
  explicit PagemapCopyCounter(bool was_there) : was_there_(was_there) {}

  // Takes one look at all of the process against its parent. `faults`: its page faults since the last look that can
  // have been copies. A page that both sides have alone is this process's copy as long as it had the faults for it; the
  // rest are the parent's. So where both write at once, the count is an upper bound. One fault copies all hugetlb pages
  // of a region: there a few other faults are enough to take the parent's copies for this process's. A page that the
  // parent left by a copy is shared by workers only, and the last of them has it alone without a copy: of those that
  // were seen to hold it and still live, all but one count a copy.
  NewCopies Take(absl::Span<const RegionSharing> look, uint64_t page_bytes, uint64_t faults, const Family& family);
  // Of the pages that the parent left (`parents`: those it is known to have copied), those that this process holds: it
  // shares them, or became the only one to have them without counting a copy.
  PageBits HoldsOfLeft(uint64_t address, const PageBits& parents) const;
  // The pages that its parent has as well and whose copies its own looks find: it shares them, or is known to have
  // copied them since it last forked.
  PageBits OfItsParent(uint64_t address) const;
  // It has a new child, which shares all its pages.
  void Forked() {
    has_children_ = true;
    copied_.clear();
  }
  // It runs another program, and has inherited nothing.
  void Exec() { *this = PagemapCopyCounter(/*was_there=*/true); }

 private:
  struct Known {
    PageBits shared;     // at the last look: what can be copied
    PageBits own;        // has been alone its own, at any time: it may have handed the page on to a child
    PageBits left;       // of `shared`: by the parent, which has a copy of its own
    PageBits inherited;  // at the last look: alone its own since, not counted as its copy, and the parent had left it
    PageBits peer;       // at the last look: the parent has a page there
  };
  absl::flat_hash_map<uint64_t, Known> known_;
  absl::flat_hash_map<uint64_t, PageBits> copied_;  // have become alone its own since it forked, if it has
  bool was_there_ = false, first_ = true, has_children_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PAGEMAP_COPY_COUNTER_H_
