#include "model/judge/hang_format.h"

#include "absl/strings/str_cat.h"
#include "model/base_name.h"
#include "model/format.h"
#include "model/judge/fork_holder.h"
#include "model/judge/post_mortem.h"
#include "model/library_name.h"

namespace cowprof {

const Frame* UserFrame(const std::vector<Frame>& stack) {
  for (const Frame& frame : stack) {
    if (LibraryOf(frame.file).empty()) return &frame;
  }
  return stack.empty() ? nullptr : &stack[0];
}

std::string FrameText(const Frame& frame, bool whole_path) {
  const std::string file = Printable(whole_path ? absl::string_view(frame.file) : BaseName(frame.file), 300);
  return absl::StrCat(file, ":", frame.line, " in ", Printable(frame.function));
}

std::string HangSentence(const Hang& hang, absl::string_view who, bool over) {
  const Frame* frame = UserFrame(hang.stack);
  const std::string at = frame == nullptr ? "it" : absl::StrCat("at ", FrameText(*frame, false), " it");
  std::string sentence = absl::StrCat(hang.tid == hang.pid ? "" : absl::StrCat("thread ", hang.tid, " of "), who,
                                      over ? " could never go on: " : " can never go on: ", at,
                                      over ? " waited for " : " waits for ", Printable(hang.what, 400));
  const Frame* held = hang.holder ? UserFrame(hang.holder->stack) : nullptr;
  if (held == nullptr) return sentence;
  // Of an owner that is known by itself the look shows where it was.
  const bool dated = hang.holder->looked_after && hang.kind != HangKind::kLock && hang.kind != HangKind::kImportLock;
  absl::StrAppend(&sentence, " (", FrameText(*held, false),
                  dated ? absl::StrCat(", ", WhenLooked(*hang.holder->looked_after)) : "", ")");
  return sentence;
}

std::string HolderText(const Holder& holder) {
  return absl::StrCat("the parent's thread ", holder.tid, " (", Printable(holder.name), ")",
                      holder.looked_after ? absl::StrCat(" as it was ", WhenLooked(*holder.looked_after)) : "");
}

std::string HungName(const ProcessModel& process) {
  return process.role == Role::kPool ? absl::StrCat("worker ", process.id.pid) : NameOf(process);
}

const char* WhyCertain(HangProof proof) {
  return proof == HangProof::kNever
             ? "every thread of the process waits, without timeout, for another thread of the same process; in two "
               "looks none had moved"
             : "the thread that has it does not exist in this process";
}

std::string VictimText(const WaitForChildren& victim) {
  const Frame* frame = UserFrame(victim.stack);
  return absl::StrCat("process ", victim.pid, " waits for ", Printable(victim.what),
                      frame == nullptr ? "" : absl::StrCat(" at ", FrameText(*frame, true)));
}

}  // namespace cowprof
