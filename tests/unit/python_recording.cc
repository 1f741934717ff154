// Reads and writes recordings of Python processes, and compares what is read from them with the truth.
#include "python_recording.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "python/objects.h"

namespace cowprof {
namespace {

struct ModuleField {
  absl::string_view key;
  uint64_t PythonModule::*member;
};
constexpr ModuleField kModuleFields[] = {
    {"type_type", &PythonModule::type_type},
    {"code_type", &PythonModule::code_type},
    {"none", &PythonModule::none},
    {"runtime", &PythonModule::runtime},
    {"py_version", &PythonModule::py_version},
    {"thread_state_current", &PythonModule::thread_state_current},
    {"interp_head", &PythonModule::interp_head},
    {"auto_tls_key", &PythonModule::auto_tls_key},
    {"collecting", &PythonModule::collecting},
    {"bss_begin", &PythonModule::bss_begin},
    {"bss_end", &PythonModule::bss_end},
};

std::string Quote(absl::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c > ' ' && c < 127 && c != '\\') {
      quoted.push_back(c);
    } else {
      const unsigned value = static_cast<unsigned char>(c);
      absl::StrAppend(&quoted, "\\", value >> 6, value >> 3 & 7, value & 7);
    }
  }
  return quoted;
}

std::string Unquote(absl::string_view quoted) {
  std::string text;
  return absl::CUnescape(quoted, &text) ? text : "";
}

std::string Show(const CodeLocation& location) {
  return absl::StrCat(location.function, " (", location.file, ":", location.line, ")");
}

void CompareThread(uint64_t id, const std::vector<CodeLocation>& expected, const Interpreter& interpreter,
                   const MemoryReader& memory, std::vector<std::string>* mistakes) {
  CodeReader reader(interpreter, memory);
  for (const ThreadState& thread : ListThreads(interpreter, memory)) {
    if (thread.thread_id != id) continue;
    const std::vector<RawFrame> frames = WalkFrames(interpreter, memory, thread.address);
    if (frames.size() != expected.size()) {
      mistakes->push_back(absl::StrCat("thread ", id, ": ", frames.size(), " frames, not ", expected.size()));
    }
    for (size_t i = 0; i < std::min(frames.size(), expected.size()); ++i) {
      const auto found = reader.Resolve(frames[i].code, frames[i].instruction);
      if (found == expected[i]) continue;
      mistakes->push_back(absl::StrCat("thread ", id, " frame ", i, ": ", found ? Show(*found) : "no code", ", not ",
                                       Show(expected[i])));
    }
    return;
  }
  mistakes->push_back(absl::StrCat("thread ", id, " was not found"));
}

}  // namespace

bool RecordedMemory::Read(uint64_t address, absl::Span<char> bytes) const {
  if (bytes.empty()) return true;
  auto piece = pieces_.upper_bound(address);
  if (piece == pieces_.begin()) return false;
  --piece;
  const uint64_t offset = address - piece->first;
  if (offset >= piece->second.size() || piece->second.size() - offset < bytes.size()) return false;
  std::copy_n(piece->second.data() + offset, bytes.size(), bytes.data());
  return true;
}

void RecordedMemory::Add(uint64_t address, absl::string_view bytes) {
  if (bytes.empty()) return;
  uint64_t begin = address, end = address + bytes.size();
  auto first = pieces_.upper_bound(begin);
  if (first != pieces_.begin() && std::prev(first)->first + std::prev(first)->second.size() >= begin) --first;
  auto last = first;
  for (; last != pieces_.end() && last->first <= end; ++last) {
    begin = std::min(begin, last->first);
    end = std::max(end, last->first + last->second.size());
  }
  std::string joined(end - begin, '\0');
  for (auto piece = first; piece != last; ++piece) {
    std::copy(piece->second.begin(), piece->second.end(), joined.begin() + (piece->first - begin));
  }
  std::copy(bytes.begin(), bytes.end(), joined.begin() + (address - begin));
  pieces_.erase(first, last);
  pieces_[begin] = std::move(joined);
}

bool RecordingMemory::Read(uint64_t address, absl::Span<char> bytes) const {
  if (!memory_.Read(address, bytes)) return false;
  recorded_.Add(address, absl::string_view(bytes.data(), bytes.size()));
  return true;
}

bool ParseTruthLine(absl::string_view line, PythonTruth* truth) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  uint64_t number = 0;
  if (words.size() == 4 && words[0] == "frame" && !truth->threads.empty() && absl::SimpleAtoi(words[3], &number)) {
    truth->threads.back().frames.push_back({Unquote(words[2]), Unquote(words[1]), static_cast<int>(number)});
    return true;
  }
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &number)) return false;
  if (words[0] == "thread" && words.size() == 2) {
    truth->threads.push_back({number, {}});
  } else if (words[0] == "nottype" && words.size() == 2) {
    truth->not_types.push_back(number);
  } else if (words[0] == "type" && words.size() == 3) {
    truth->types.push_back({number, Unquote(words[2])});
  } else if (words[0] == "object" && words.size() == 3) {
    truth->objects.push_back({number, Unquote(words[2])});
  } else {
    return false;
  }
  return true;
}

std::string FormatRecording(const PythonRecording& recording) {
  std::string text = absl::StrCat("version ", recording.version, "\nmodule path ", Quote(recording.module.path), "\n");
  for (const ModuleField& field : kModuleFields) {
    absl::StrAppend(&text, "module ", field.key, " ", recording.module.*field.member, "\n");
  }
  for (const PythonTruth::Thread& thread : recording.truth.threads) {
    absl::StrAppend(&text, "thread ", thread.id, "\n");
    for (const CodeLocation& frame : thread.frames) {
      absl::StrAppend(&text, "frame ", Quote(frame.function), " ", Quote(frame.file), " ", frame.line, "\n");
    }
  }
  for (const auto& type : recording.truth.types) {
    absl::StrAppend(&text, "type ", type.address, " ", Quote(type.name), "\n");
  }
  for (const auto& object : recording.truth.objects) {
    absl::StrAppend(&text, "object ", object.address, " ", Quote(object.name), "\n");
  }
  for (const uint64_t address : recording.truth.not_types) absl::StrAppend(&text, "nottype ", address, "\n");
  for (const auto& [address, bytes] : recording.memory.pieces()) {
    for (size_t i = 0; i < bytes.size(); i += 1500) {
      absl::StrAppend(&text, "memory ", address + i, " ", absl::Base64Escape(bytes.substr(i, 1500)), "\n");
    }
  }
  return text;
}

absl::StatusOr<PythonRecording> ParseRecording(absl::string_view text) {
  PythonRecording recording;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (ParseTruthLine(line, &recording.truth)) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    uint64_t number = 0;
    if (words.size() == 2 && words[0] == "version") {
      recording.version = std::string(words[1]);
    } else if (words.size() == 3 && words[0] == "module" && words[1] == "path") {
      recording.module.path = Unquote(words[2]);
    } else if (words.size() == 3 && words[0] == "module" && absl::SimpleAtoi(words[2], &number)) {
      for (const ModuleField& field : kModuleFields) {
        if (field.key == words[1]) recording.module.*field.member = number;
      }
    } else if (std::string bytes; words.size() == 3 && words[0] == "memory" && absl::SimpleAtoi(words[1], &number) &&
                                  absl::Base64Unescape(words[2], &bytes)) {
      recording.memory.Add(number, bytes);
    } else {
      return absl::InvalidArgumentError(absl::StrCat("parse recording: ", line));
    }
  }
  return recording;
}

std::vector<std::string> FindMistakes(const PythonTruth& truth, const Interpreter& interpreter,
                                      const MemoryReader& memory) {
  std::vector<std::string> mistakes;
  for (const PythonTruth::Thread& thread : truth.threads) {
    CompareThread(thread.id, thread.frames, interpreter, memory, &mistakes);
  }
  TypeReader reader(interpreter, memory);
  for (const auto& type : truth.types) {
    const auto name = reader.NameOf(type.address);
    if (name != type.name) mistakes.push_back(absl::StrCat("type ", name.value_or("none"), ", not ", type.name));
  }
  for (const auto& object : truth.objects) {
    const auto type = reader.TypeOfObject(object.address);
    const std::string name = type ? type->name : "none";
    if (name != object.name) mistakes.push_back(absl::StrCat("object of ", name, ", not of ", object.name));
  }
  for (const uint64_t address : truth.not_types) {
    const auto name = reader.NameOf(address);
    if (name) mistakes.push_back(absl::StrCat("an object was taken for the type ", *name));
  }
  return mistakes;
}

}  // namespace cowprof
