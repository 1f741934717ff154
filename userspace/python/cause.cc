// Recognizes functions that allocate and free by their names, and maps shape, write and function to a cause.
#include "python/cause.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace cowprof {
namespace {

// Without what compilers append to parts and copies of a function: ".part.0", ".constprop.0", ".lto_priv.0",
// ".llvm.123", " [clone .isra.0]".
absl::string_view WholeFunction(absl::string_view symbol) {
  return symbol.substr(0, std::min(symbol.find('.'), symbol.find(" [clone")));
}

// Functions of CPython and of the C library that free memory: dict_dealloc, _PyObject_Free, PyObject_GC_UnTrack,
// free, free_keys_object. Not lock_free_queue_push.
bool Releases(absl::string_view symbol) {
  const bool frees = absl::EndsWith(symbol, "free") || absl::StrContains(symbol, "free_");
  return absl::StrContains(symbol, "dealloc") || absl::StrContains(symbol, "Dealloc") ||
         absl::EndsWith(symbol, "Free") || (frees && !absl::StrContains(symbol, "lock_free")) ||
         absl::StrContains(symbol, "UnTrack") || absl::StrContains(symbol, "UNTRACK") ||
         absl::EndsWith(symbol, "GC_Del");
}

// Creating an object appends it to the collector's list, which writes the GC head of the object before it.
bool Creates(absl::string_view symbol) {
  return absl::StrContains(symbol, "New") || absl::StrContains(symbol, "_new") || absl::StrContains(symbol, "lloc") ||
         absl::EndsWith(symbol, "GC_Track") || absl::EndsWith(symbol, "GC_Link");
}

}  // namespace

bool NeedsSymbol(cowprof_shape shape) {
  return shape == COWPROF_SHAPE_LINK || shape == COWPROF_SHAPE_PAYLOAD || shape == COWPROF_SHAPE_OBJECT;
}

Cause CauseOf(cowprof_shape shape, WriteKind kind, absl::string_view symbol) {
  symbol = WholeFunction(symbol);
  switch (shape) {
    case COWPROF_SHAPE_KERNEL:
      return Cause::kKernel;
    // What a memory copy overwrites had been an object before it was freed.
    case COWPROF_SHAPE_REFCOUNT:
      return kind == WriteKind::kBulk ? Cause::kData : Cause::kRefcount;
    case COWPROF_SHAPE_LAST_REFERENCE:
      if (kind == WriteKind::kBulk) return Cause::kData;
      return kind == WriteKind::kDecrement ? Cause::kFree : Cause::kRefcount;
    case COWPROF_SHAPE_COLLECTION:
      return Cause::kGcHeader;
    case COWPROF_SHAPE_LINK:
      // Without a name, assume a free: creation writes only the newest object's neighbour, frees write everyone's.
      return Creates(symbol) && !Releases(symbol) ? Cause::kAllocator : Cause::kFree;
    case COWPROF_SHAPE_HASH:
      return Cause::kHash;
    case COWPROF_SHAPE_CODE:
      return Cause::kBytecode;
    case COWPROF_SHAPE_DEAD_OBJECT:
    case COWPROF_SHAPE_POOL_HEADER:
    case COWPROF_SHAPE_FREE_BLOCK:
      return Cause::kAllocator;
    case COWPROF_SHAPE_PAYLOAD:
    case COWPROF_SHAPE_OBJECT:
      return Releases(symbol) ? Cause::kFree : Cause::kData;
    case COWPROF_SHAPE_OUTSIDE:
      return Cause::kData;
    case COWPROF_SHAPE_FREED:
    case COWPROF_SHAPE_FREED_KERNEL:
      return Cause::kMallocReuse;
    case COWPROF_SHAPE_COUNTED:
      return kind == WriteKind::kOther || kind == WriteKind::kBulk ? Cause::kData : Cause::kNativeRefcount;
    case COWPROF_SHAPE_UNREAD:
    case COWPROF_SHAPE_NEW:  // not a copy
    case COWPROF_SHAPE_UNSURE:
    case COWPROF_SHAPE_UNSURE_KERNEL:
    case COWPROF_SHAPES:
    case COWPROF_SHAPE_ANY:
      break;
  }
  return Cause::kUnknown;
}

}  // namespace cowprof
