// Every name comes from the target and is made safe to print.
#include "sink/report/hang_format.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/base_name.h"
#include "model/format.h"

namespace cowprof {
namespace {

constexpr size_t kMostFrames = 12;

std::string FrameText(const Frame& frame, bool whole_path) {
  const std::string file = Printable(whole_path ? absl::string_view(frame.file) : BaseName(frame.file), 300);
  return absl::StrCat(file, ":", frame.line, " in ", Printable(frame.function));
}

// Frames of the standard library say how it waits, not whose wait it is.
const Frame* UserFrame(const std::vector<Frame>& stack) {
  for (const Frame& frame : stack) {
    const bool library = absl::StrContains(frame.file, "/lib/python") || absl::StartsWith(frame.file, "<frozen ") ||
                         absl::StrContains(frame.file, "-packages/");
    if (!library) return &frame;
  }
  return stack.empty() ? nullptr : &stack[0];
}

std::string StackText(const std::vector<Frame>& stack) {
  std::string out;
  for (size_t i = 0; i < std::min(stack.size(), kMostFrames); ++i)
    absl::StrAppend(&out, "      ", FrameText(stack[i], true), "\n");
  if (stack.size() > kMostFrames) absl::StrAppend(&out, "      and ", stack.size() - kMostFrames, " more\n");
  return out;
}

}  // namespace

std::string HangSentence(const Hang& hang) {
  const Frame* frame = UserFrame(hang.stack);
  const std::string at = frame == nullptr ? "it" : absl::StrCat("at ", FrameText(*frame, false), " it");
  const bool main_thread = hang.tid == hang.process.pid;
  std::string sentence = absl::StrCat(main_thread ? "Process " : "Thread ", hang.tid,
                                      main_thread ? "" : absl::StrCat(" of process ", hang.process.pid),
                                      " can never go on: ", at, " waits for ", Printable(hang.what, 400));
  if (hang.holder && hang.holder->still_holds) {
    if (const Frame* held = UserFrame(hang.holder->stack))
      absl::StrAppend(&sentence, " (", FrameText(*held, false), ")");
  }
  return absl::StrCat(sentence, ".");
}

std::string HangsText(absl::Span<const Hang> hangs) {
  std::string out;
  for (const Hang& hang : hangs) {
    absl::StrAppend(&out, HangSentence(hang), "\n");
    absl::StrAppend(&out, "  why it is certain: ",
                    hang.proof == HangProof::kNever
                        ? "every thread of the process waits, without timeout, for another thread of the same process; "
                          "in two looks none had moved"
                        : "the thread that has it does not exist in this process",
                    "\n");
    if (!hang.stack.empty()) absl::StrAppend(&out, "  its Python stack:\n", StackText(hang.stack));
    if (!hang.native.empty()) absl::StrAppend(&out, "  in native code: ", Printable(hang.native, 400), "\n");
    if (hang.holder && !hang.holder->stack.empty()) {
      absl::StrAppend(&out, "  the parent's thread ", hang.holder->tid, " (", Printable(hang.holder->name),
                      "), which still holds it:\n", StackText(hang.holder->stack));
    }
    for (const WaitForChildren& victim : hang.victims) {
      const Frame* frame = UserFrame(victim.stack);
      absl::StrAppend(&out, "  its victim: process ", victim.pid, " waits for ", victim.what,
                      frame == nullptr ? "" : absl::StrCat(" at ", FrameText(*frame, true)), "\n");
    }
    if (!hang.fix.empty()) absl::StrAppend(&out, "  do: ", Printable(hang.fix, 600), "\n");
    absl::StrAppend(&out, "\n");
  }
  return out;
}

}  // namespace cowprof
