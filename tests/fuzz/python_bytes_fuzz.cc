// Parsers of CPython's bytes that do not follow pointers: line tables of all versions, the published table of offsets,
// pool headers, an instruction, two versions of a page.
#include <algorithm>
#include <cstring>

#include "fuzz.h"
#include "python/debug_offsets.h"
#include "python/frames.h"
#include "python/instruction.h"
#include "python/object_heads.h"
#include "python/objects.h"
#include "python/page_diff.h"

namespace cowprof {
namespace {

void FuzzLines(FuzzedDataProvider* input) {
  const auto kind = static_cast<LineTableKind>(input->ConsumeIntegralInRange(0, 2));
  const int first = input->ConsumeIntegral<int32_t>();
  const int64_t offset = input->ConsumeBool() ? input->ConsumeIntegral<uint16_t>() : input->ConsumeIntegral<int64_t>();
  Require(LineOf(kind, input->ConsumeRemainingBytesAsString(), first, offset) >= 0, "a line, or 0");
}

void FuzzOffsets(FuzzedDataProvider* input) {
  const uint32_t minor = input->ConsumeIntegralInRange(5, 16);
  PythonLayout layout = LayoutOf(minor, input->ConsumeIntegral<uint8_t>(), input->ConsumeBool());
  if (input->ConsumeBool() && layout.usable) layout = WithTraceRefs(layout);
  const std::string table = input->ConsumeRemainingBytesAsString();
  const PythonLayout published = WithDebugOffsets(layout, table);
  Require(published.usable || published.reason[0] != '\0', "a reason if it is not usable");
  const HeadBytes heads = HeadBytesOf(published);
  Require(
      !published.usable || std::max({heads.object, heads.type, heads.frame, heads.code, heads.string}) <= kMaxHeadBytes,
      "offsets within what is read at once");
}

void FuzzPool(FuzzedDataProvider* input) {
  const uint64_t pool_bytes = 1ull << input->ConsumeIntegralInRange(10, 20),
                 address = input->ConsumeIntegral<uint64_t>();
  const std::string header = input->ConsumeRemainingBytesAsString();
  const auto block = ParsePool(header, address, pool_bytes);
  if (!block || block->in_header) return;
  Require(block->block <= address && address - block->block < block->block_bytes, "the block contains the address");
}

void FuzzInstruction(FuzzedDataProvider* input) {
  const std::vector<uint8_t> before = input->ConsumeBytes<uint8_t>(input->ConsumeIntegralInRange(0, 8));
  WriteKindOf(input->ConsumeRemainingBytes<uint8_t>(), before);
}

void FuzzPages(FuzzedDataProvider* input) {
  PageContext context = {
      .address = input->ConsumeIntegral<uint64_t>() / 4096 * 4096,
      .layout = {.gc_head_bytes = input->ConsumeBool() ? 16u : 32u, .count_has_flags = input->ConsumeBool()}};
  const uint64_t flags = input->ConsumeIntegral<uint64_t>();
  if (input->ConsumeBool()) {
    context.types = [&](uint64_t address) -> std::optional<TypeTraits> {
      if (address % 16 != 0) return std::nullopt;
      return TraitsOf(flags ^ address, 11 + address / 16 % 4);
    };
  }
  for (PageNeighbours* near : {&context.parent, &context.worker}) {
    if (input->ConsumeBool()) near->before = {1, 65536, 3, 65552, 5};
    if (input->ConsumeBool()) near->after = {65536, 1, 65568, 4, 5};
  }
  std::vector<uint64_t> parent(input->ConsumeIntegralInRange<size_t>(0, 64)), worker;
  for (uint64_t& word : parent) word = input->ConsumeIntegral<uint8_t>() << (input->ConsumeBool() ? 12 : 0);
  worker = parent;
  for (uint64_t& word : worker) {
    if (input->ConsumeBool()) word += input->ConsumeIntegral<int8_t>();
  }
  if (input->ConsumeBool()) worker.resize(input->ConsumeIntegralInRange<size_t>(0, 64));
  const PageDiff diff = ComparePages(context, parent, worker);
  Require((diff == PageDiff::kIdentical) == (parent == worker), "identical if and only if equal");
  NeedsNeighbours(parent, worker);
  if (context.types) CountHeads(parent, context.layout, context.types);
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cowprof;
  constexpr void (*kParsers[])(FuzzedDataProvider*) = {FuzzLines, FuzzOffsets, FuzzPool, FuzzInstruction, FuzzPages};
  FuzzedDataProvider input(data, size);
  kParsers[PickOne(&input, std::size(kParsers))](&input);
  return 0;
}
