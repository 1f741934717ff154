// Damages single words, pointers and bytes far more often than whole pieces.
#include "hostile_memory.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace cowprof {

const std::vector<RecordedPython>& RecordedPythons() {
  static const std::vector<RecordedPython>* const all = [] {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(COWPROF_FIXTURES "/python")) {
      if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
    }
    std::sort(paths.begin(), paths.end());
    auto* pythons = new std::vector<RecordedPython>;
    for (const std::string& path : paths) {
      std::stringstream text;
      text << std::ifstream(path, std::ios::binary).rdbuf();
      absl::StatusOr<PythonRecording> recording = ParseRecording(text.str());
      Require(recording.ok(), "a fixture is readable");
      absl::StatusOr<Interpreter> interpreter = ReadInterpreter(recording->module, recording->memory);
      Require(interpreter.ok() && interpreter->ready, "a fixture contains an interpreter");
      pythons->push_back({*std::move(recording), *std::move(interpreter)});
    }
    return pythons;
  }();
  return *all;
}

bool HostileMemory::Read(uint64_t address, absl::Span<char> bytes) const {
  const bool recorded = recording_.memory.Read(address, bytes);
  if (input_->remaining_bytes() == 0 || bytes.empty()) return recorded;
  switch (input_->ConsumeIntegral<uint8_t>()) {
    case 0:
      return false;
    case 1: {  // replace all bytes
      std::fill(bytes.begin(), bytes.end(), '\0');
      input_->ConsumeData(bytes.data(), std::min<size_t>(bytes.size(), 256));
      return true;
    }
    case 2: {  // replace a word
      if (!recorded || bytes.size() < 8) return recorded;
      const uint64_t word = input_->ConsumeIntegral<uint64_t>();
      memcpy(bytes.data() + input_->ConsumeIntegralInRange<size_t>(0, bytes.size() / 8 - 1) * 8, &word, sizeof(word));
      return true;
    }
    case 3: {  // replace a word with a plausible pointer
      if (!recorded || bytes.size() < 8) return recorded;
      const uint64_t word = Address();
      memcpy(bytes.data() + input_->ConsumeIntegralInRange<size_t>(0, bytes.size() / 8 - 1) * 8, &word, sizeof(word));
      return true;
    }
    case 4: {  // replace a byte
      bytes[input_->ConsumeIntegralInRange<size_t>(0, bytes.size() - 1)] = input_->ConsumeIntegral<char>();
      return recorded;
    }
    default:
      return recorded;
  }
}

uint64_t HostileMemory::Address() const {
  const PythonTruth& truth = recording_.truth;
  switch (input_->ConsumeIntegralInRange(0, 3)) {
    case 0:
      return input_->ConsumeIntegral<uint64_t>();
    case 1:
      return truth.types[input_->ConsumeIntegral<uint8_t>() % truth.types.size()].address;
    case 2:
      return truth.objects[input_->ConsumeIntegral<uint8_t>() % truth.objects.size()].address;
  }
  const auto& pieces = recording_.memory.pieces();
  auto piece = pieces.begin();
  std::advance(piece, input_->ConsumeIntegral<uint16_t>() % pieces.size());
  return piece->first + input_->ConsumeIntegral<uint16_t>() % piece->second.size() / 8 * 8;
}

}  // namespace cowprof
