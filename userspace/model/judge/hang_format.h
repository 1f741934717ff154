// A hang in words, for the report, a diagnosis and an alert. Pure. Every name comes from the target and is made safe to
// print.
#ifndef COWPROF_MODEL_JUDGE_HANG_FORMAT_H_
#define COWPROF_MODEL_JUDGE_HANG_FORMAT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/facts/hang.h"
#include "model/facts/run_model.h"

namespace cowprof {

// "worker 4711 can never go on: at train.py:31 in load_batch it waits for a threading.Lock that ...", without a full
// stop. `who`: "worker 4711". `over`: the process has ended.
std::string HangSentence(const Hang& hang, absl::string_view who, bool over = false);
// "the parent's thread 4243 (stats-thread) as it was 2 ms after the fork".
std::string HolderText(const Holder& holder);
// "worker 4711", also of a pool.
std::string HungName(const ProcessModel& process);
// "every thread of the process waits, ...".
const char* WhyCertain(HangProof proof);
// "process 4242 waits for Pool.join() at /srv/train.py:60 in main".
std::string VictimText(const WaitForChildren& victim);
// The innermost frame of the program itself, which says whose wait it is; without one, that of a library. Null: `stack`
// is empty.
const Frame* UserFrame(const std::vector<Frame>& stack);
// "train.py:31 in load_batch", with the base name or the whole path of the file.
std::string FrameText(const Frame& frame, bool whole_path);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_HANG_FORMAT_H_
