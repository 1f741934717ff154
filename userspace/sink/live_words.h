// Short forms of what a recording says, for a line and for the screen. Pure; called by terminal.cc and screen.cc.
#ifndef COWPROF_SINK_LIVE_WORDS_H_
#define COWPROF_SINK_LIVE_WORDS_H_

#include <string>
#include <vector>

#include "model/growth.h"

namespace cowprof {

std::string RateWords(double copies_per_second, uint64_t page_bytes);  // "+12.1 MiB/s"
// "refcount 95 %, data 3 %": the largest causes of what the workers copied, from 1 % on.
std::string CausesWords(const Growth& growth, size_t most);
std::vector<const ProcessGrowth*> LivingWorkers(const Growth& growth);

}  // namespace cowprof

#endif  // COWPROF_SINK_LIVE_WORDS_H_
