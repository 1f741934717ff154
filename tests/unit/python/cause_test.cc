// The cause of a copy as a table: what the probes saw x what the instruction does x which function it is in. Function
// names are those of CPython 3.6 to 3.14 and of glibc.
#include "python/cause.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "model/facts/run_model.h"

namespace cowprof {
namespace {

constexpr WriteKind kKinds[] = {WriteKind::kOther, WriteKind::kIncrement, WriteKind::kDecrement, WriteKind::kAdd};
// Any function: a name, no name, one that frees, one that allocates.
const std::vector<std::string> kSymbols = {
    "", "list_item", "list_dealloc", "PyObject_Free", "PyList_New", "_PyEval_EvalFrameDefault", std::string(1000, 'x')};

std::string Judged(cowprof_shape shape, WriteKind kind, const std::string& symbol) {
  return NameOf(CauseOf(shape, kind, symbol));
}

}  // namespace

TEST_CASE("cause: shapes that decide regardless of the function") {
  struct Row {
    cowprof_shape shape;
    const char* cause;
  };
  for (const Row& row : std::vector<Row>{{COWPROF_SHAPE_UNREAD, "unknown"},
                                         {COWPROF_SHAPE_KERNEL, "kernel"},
                                         {COWPROF_SHAPE_FREED, "malloc_reuse"},
                                         {COWPROF_SHAPE_FREED_KERNEL, "malloc_reuse"},
                                         {COWPROF_SHAPE_UNSURE, "unknown"},
                                         {COWPROF_SHAPE_UNSURE_KERNEL, "unknown"},
                                         {COWPROF_SHAPE_REFCOUNT, "refcount"},
                                         {COWPROF_SHAPE_DEAD_OBJECT, "allocator"},
                                         {COWPROF_SHAPE_COLLECTION, "gc_header"},
                                         {COWPROF_SHAPE_HASH, "hash"},
                                         {COWPROF_SHAPE_CODE, "bytecode"},
                                         {COWPROF_SHAPE_POOL_HEADER, "allocator"},
                                         {COWPROF_SHAPE_FREE_BLOCK, "allocator"},
                                         {COWPROF_SHAPE_OUTSIDE, "data"}}) {
    for (const WriteKind kind : kKinds) {
      for (const std::string& symbol : kSymbols) {
        INFO("shape " << row.shape << " kind " << static_cast<int>(kind) << " in " << symbol);
        CHECK(Judged(row.shape, kind, symbol) == row.cause);
      }
    }
    CHECK_FALSE(NeedsSymbol(row.shape));
  }
}

TEST_CASE("cause: a copy of memory over what had been an object writes no count") {
  for (const cowprof_shape shape : {COWPROF_SHAPE_REFCOUNT, COWPROF_SHAPE_LAST_REFERENCE, COWPROF_SHAPE_COUNTED})
    CHECK(Judged(shape, WriteKind::kBulk, "") == "data");
}

TEST_CASE("cause: what adds or subtracts 1 where C++ objects have their count is a count") {
  for (const WriteKind kind : kKinds) {
    CHECK(Judged(COWPROF_SHAPE_COUNTED, kind, "") == (kind == WriteKind::kOther ? "data" : "native_refcount"));
    CHECK(Judged(COWPROF_SHAPE_OUTSIDE, kind, "") == "data");
  }
}

TEST_CASE("cause: an object dies when its last reference is dropped, and only then") {
  for (const std::string& symbol : kSymbols) {
    CHECK(Judged(COWPROF_SHAPE_LAST_REFERENCE, WriteKind::kDecrement, symbol) == "free");
    CHECK(Judged(COWPROF_SHAPE_LAST_REFERENCE, WriteKind::kIncrement, symbol) == "refcount");
    CHECK(Judged(COWPROF_SHAPE_LAST_REFERENCE, WriteKind::kOther, symbol) == "refcount");
  }
  CHECK_FALSE(NeedsSymbol(COWPROF_SHAPE_LAST_REFERENCE));
}

TEST_CASE("cause: a neighbour in the collector's list is added or removed") {
  for (const WriteKind kind : kKinds) {
    for (const char* makes : {"PyObject_GC_Track", "_PyObject_GC_New", "PyType_GenericAlloc", "PyList_New",
                              "_PyObject_GC_Link", "tuple_new", "PyDict_New", "_PyObject_GC_Malloc",
                              "PyObject_GC_Track.part.0", "_PyObject_GC_Link.lto_priv.0"}) {
      INFO(makes);
      CHECK(Judged(COWPROF_SHAPE_LINK, kind, makes) == "allocator");
    }
    for (const char* gives_back :
         {"PyObject_GC_UnTrack", "list_dealloc", "tupledealloc", "dict_dealloc", "subtype_dealloc", "PyObject_GC_Del",
          "_PyObject_GC_UNTRACK", "_Py_Dealloc", "", "_PyEval_EvalFrameDefault", "PyObject_GC_Del.constprop.0"}) {
      INFO(gives_back);
      CHECK(Judged(COWPROF_SHAPE_LINK, kind, gives_back) == "free");
    }
  }
}

TEST_CASE("cause: contents are data unless the function frees memory") {
  const cowprof_shape shape = GENERATE(COWPROF_SHAPE_PAYLOAD, COWPROF_SHAPE_OBJECT);
  for (const WriteKind kind : kKinds) {
    for (const char* gives_back :
         {"PyObject_Free", "_PyObject_Free", "PyMem_Free", "_PyMem_RawFree", "free", "cfree", "_int_free",
          "_int_free_chunk", "free_keys_object", "list_dealloc", "unicode_dealloc", "tupledealloc", "PyObject_GC_Del",
          "PyObject_Free.llvm.123", "_int_free.isra.0", "free_values.part.0", "list_dealloc.lto_priv.0.cold"}) {
      INFO(gives_back);
      CHECK(Judged(shape, kind, gives_back) == "free");
    }
    for (const char* writes : {"", "list_ass_item", "PyDict_SetItem", "insertdict", "memcpy", "__memmove_avx_unaligned",
                               "PyUnicode_Append", "_PyEval_EvalFrameDefault", "gc_freeze_impl", "realloc",
                               "PyList_New", "lock_free_queue_push", "is_lock_free"}) {
      INFO(writes);
      CHECK(Judged(shape, kind, writes) == "data");
    }
  }
}

// Without the symbol, where NeedsSymbol() says that none is needed, the cause must be the same.
TEST_CASE("cause: shapes that depend on a symbol say so") {
  for (int number = 0; number < COWPROF_SHAPES; ++number) {
    const auto shape = static_cast<cowprof_shape>(number);
    bool depends = false;
    for (const WriteKind kind : kKinds) {
      for (const std::string& symbol : kSymbols) depends |= CauseOf(shape, kind, symbol) != CauseOf(shape, kind, "");
    }
    INFO("shape " << number);
    CHECK(depends == NeedsSymbol(shape));
  }
}

TEST_CASE("cause: a nonexistent shape is unknown") {
  for (const int number : {static_cast<int>(COWPROF_SHAPES), 31, 127}) {
    CHECK(Judged(static_cast<cowprof_shape>(number), WriteKind::kDecrement, "free") == "unknown");
    CHECK_FALSE(NeedsSymbol(static_cast<cowprof_shape>(number)));
  }
}

}  // namespace cowprof
