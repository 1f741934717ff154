// Which copies were made of pages of private file mappings: mmap(2) with MAP_PRIVATE, such as
// numpy.memmap(mode="c") and torch.load(mmap=True). The first write to a page that was only read takes a write-protect
// fault, and the kernel copies the page of the page cache (mm/memory.c, wp_page_copy): to the probes that is a copy
// like any other, but no process had the memory before, and nobody shares it after. Pure.
#ifndef COWPROF_MODEL_FACTS_COPIES_OF_FILES_H_
#define COWPROF_MODEL_FACTS_COPIES_OF_FILES_H_

#include <cstdint>

#include "model/facts/sample.h"

namespace cowprof {

struct ProcessModel;

// How many of a process's copies were certainly of such pages. RssAnon rose by them, since a page of a file became an
// anonymous one, and a sweep found them where the parent has no anonymous page. A copy of inherited memory does
// neither. In a process that was compared with no parent, has never forked and shares nothing, any copy is one of a
// file.
class CopiesOfFiles {
 public:
  // `process` already has the counts and /proc figures of the row. Without a sweep that tells, RssAnon has to have
  // risen, since the last one, by about as many pages as were copied, and no more count than were written to: reading
  // inherited objects beside new memory without exceptions is not taken for it. `inherited_pages`: anonymous ones, at
  // its fork or at the attach.
  void Append(const ProcessSample& row, const ProcessModel& process, uint64_t inherited_pages);
  // 0: none, or too few to tell.
  uint64_t pages() const;

 private:
  struct Figures {
    uint64_t pages = 0, copies = 0, risen = 0;  // risen: RssAnon, beyond what was inherited and what is new
  };
  Figures swept_, now_;  // at the last sweep that told
  bool has_sweep_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_COPIES_OF_FILES_H_
