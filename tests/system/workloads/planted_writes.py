"""Scenarios of planted_python.py in which the interpreter, the program or the kernel writes: headers, hashes, pools, code, data."""
import array
import ctypes
import gc
import sys
import tempfile
import types

from planted_reads import make_text
from planted_truth import PAGE, Plan, Skip, address_of, into, module, pages_of, references, strided

SCENARIOS = {}
scenario = into(SCENARIOS)
WORDS = PAGE // 8
POOL = 16384 if sys.version_info >= (3, 10) else 4096
INCREMENTAL = (3, 14) <= sys.version_info < (3, 14, 5)
GC_HEADER = 16 if sys.version_info < (3, 8) or INCREMENTAL else 8  # its first word that a collection writes
M_MMAP_THRESHOLD = -3
PINNED = []  # keeps objects alive, so that no arena becomes empty and is unmapped


# ---- The accesses: each has a marked line, on which every copy of the scenario happens ----


def collect(data):
    gc.collect()  # planted: collect


def hash_each(data):
    for s in data: hash(s)  # planted: hash_each


def add_in_place(data):
    data += 1  # planted: add_in_place


def set_items(data):
    for i in range(0, len(data), WORDS): data[i] = True  # planted: set_items


def set_last(data):
    for item in data: item[3] = None  # planted: set_last


def set_first(data):
    for item in data: item[0] = None  # planted: set_first


def set_attribute(data):
    for item in data: item.h = None  # planted: set_attribute


def set_bytes(data):
    for i in range(0, len(data), PAGE): data[i] = 1  # planted: set_bytes


def set_numbers(data):
    for i in range(0, len(data), WORDS): data[i] = 2  # planted: set_numbers


def add_atomically(data):
    add, address, size = data
    for at in range(address, address + size, PAGE): add(at, 1, 5)  # planted: add_atomically


def clear(data):
    data.clear()  # planted: clear


def allocate(data):
    count, size = data
    blocks = [None] * count
    for i in range(count): blocks[i] = bytes(size)  # planted: allocate
    return blocks


def read_file(data):
    file, buffer = data
    file.readinto(buffer)  # planted: read_file


def call_each(data):
    functions, early = data
    for function in functions:
        for _ in range(early):
            function(1, 2, True)
        function(1, 2, False)


def generated(a, b, early): pass  # planted: generated


def two_causes(data):
    strings, buffer = data
    for s in strings: max(s)  # planted: referenced
    for i in range(0, len(buffer), PAGE): buffer[i] = len(max(strings[0]))  # planted: written


# ---- The data, and the writes that an access to it makes ----


def headers(line):
    """The writes to the headers of all tracked objects, in the order of the collector's list."""
    for x in gc.get_objects():
        yield id(x) - GC_HEADER, "gc_header", type(x).__name__, line


# Small blocks in pools that are full: what lies beside them, or in their first word, must not pass for what was written.


class Slots(object):
    __slots__ = ("a", "b", "c", "d", "e", "f", "g", "h")


def small_list(i):
    return [0.5 + i, 1.5 + i, 2.5 + i, 3.5 + i]


def set_in_lists(data, at, line):
    """The loop takes a reference to each list, then an item is overwritten and the one before it released, which lives on."""
    PINNED.extend(x for item in data for x in item)
    for item in data:
        old = item[at]
        yield id(item), "refcount", "list", line
        yield ctypes.c_uint64.from_address(id(item) + 24).value + 8 * at, "data", None, line
        yield id(old), "refcount", "float", line


@scenario(items=300000)
def last_items(items):
    """Behind the last item of a list's array is the next block, often a float."""
    data = [small_list(i) for i in range(items)]
    return Plan(set_last, data, set_in_lists(data, 3, "set_last"))


@scenario(items=300000)
def first_items(items):
    """The first word of a list's array is the address of a float in the same pool."""
    data = [small_list(i) for i in range(items)]
    return Plan(set_first, data, set_in_lists(data, 0, "set_first"))


@scenario(items=600000, since=(3, 10))
def far_slots(items):
    """Objects that lie across a page boundary, as in pools of 16 KiB: the block begins with the collector's links, to an object of the same pool."""
    data = [Slots() for _ in range(items)]
    for item in data:
        item.h = None
    writes = (write for item in data
              for write in ((id(item), "refcount", "Slots", "set_attribute"), (id(item) + 72, "data", "Slots", "set_attribute")))
    return Plan(set_attribute, data, writes)


@scenario(items=600000)
def gc_collect(items):
    """A collection first copies the reference count of every tracked object into its header."""
    data = [[None] for _ in range(items)]
    return Plan(collect, data, headers("collect"))


@scenario(items=450000, since=(3, 7))
def gc_frozen(items):
    data = [[None] for _ in range(items)]
    gc.collect()
    gc.freeze()
    return Plan(collect, data, ())


def straddling(items, make, empty):
    """Objects of 4 KiB from malloc that each start 16 bytes before the end of a page: reference count on one page, hash on the next.

    So on every page but the first, the previous object's hash is written before this object's reference count.
    """
    data = [None] * items  # allocated first, because it comes from malloc as well
    for _ in range(6):  # malloc's free memory is fragmented until it is used up
        align(make, empty)
        for i in range(items):
            data[i] = make(PAGE - 8 - sys.getsizeof(empty))  # a page, including malloc's own word
        if sum(id(x) % PAGE == PAGE - 16 for x in data) > 0.95 * items:
            return data
        PINNED.extend(data)
    raise Skip("this malloc does not place objects next to each other")


def align(make, empty):
    """Allocates until the next object of 4 KiB will start 16 bytes before the end of a page."""
    size = PAGE - 8 - sys.getsizeof(empty)
    PINNED.extend(make(size) for _ in range(1000))
    for _ in range(500):
        PINNED.append(make(size))
        gap = (PAGE - 16 - id(PINNED[-1])) % PAGE
        PINNED.append(make(gap + (PAGE if gap < 1024 else 0) - 8 - sys.getsizeof(empty)))
        PINNED.append(make(size))
        if id(PINNED[-1]) % PAGE == PAGE - 16:
            return


def hashed(items, make, empty):
    """The hashes of str and bytes objects are computed for the first time and stored in them."""
    data = straddling(items, make, empty)
    writes = (write for s in data for write in ((id(s), "refcount", type(s).__name__, "hash_each"),
                                                (id(s) + 24, "hash", type(s).__name__, "hash_each")))
    return Plan(hash_each, data, writes)


@scenario(items=12000)
def hash_str(items):
    return hashed(items, lambda size: "s" * size, "")


@scenario(items=12000)
def hash_bytes(items):
    return hashed(items, lambda size: b"s" * size, b"")


@scenario(items=8000000)
def numpy_write(items):
    data = module("numpy").ones(items)
    return Plan(add_in_place, data, pages_of(data.ctypes.data, data.nbytes, "data", None, "add_in_place"))


@scenario(items=6000000)
def array_write(items):
    data = array.array("Q", bytes(8 * items))
    data[0] = 1
    address, length = data.buffer_info()
    return Plan(set_items, data, strided(address, 8 * length, "set_items"))


@scenario(items=6000000)
def lookalike_write(items):
    """Each number that is written begins what would be a short str, but lies where there can be none."""
    data = array.array("Q", bytes(8 * items))
    kind, compact, ascii = 1 << 2, 1 << 5, 1 << 6
    lookalike = array.array("Q", [1, id(str), 5, 0, kind | compact | ascii])
    for i in range(0, items - len(lookalike), WORDS):
        data[i:i + len(lookalike)] = lookalike
    address, length = data.buffer_info()
    return Plan(set_numbers, data, strided(address, 8 * length, "set_numbers"))


@scenario(items=6000000)
def list_write(items):
    data = [None] * items
    return Plan(set_items, data, strided(payload_of_list(data), 8 * items, "set_items"))


def payload_of_list(data):
    return ctypes.c_void_p.from_address(id(data) + 24).value


@scenario(items=48000000)
def bytearray_write(items):
    data = bytearray(b"\1") * items
    return Plan(set_bytes, data, strided(address_of(data), items, "set_bytes"))


@scenario(items=9000000)
def torch_write(items):
    torch = module("torch")
    torch.set_num_threads(1)  # a thread pool does not survive a fork
    data = torch.ones(items, dtype=torch.float64)
    data[:WORDS] += 1
    return Plan(add_in_place, data, pages_of(data.data_ptr(), 8 * items, "data", None, "add_in_place"))


@scenario(items=48000000)
def atomic_write(items):
    """Counters that lock xadd raises, as it does the counts of C++ objects, but in an array."""
    try:
        add = getattr(ctypes.CDLL("libatomic.so.1"), "__atomic_fetch_add_8")
    except OSError:
        raise Skip("libatomic is not installed")
    add.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int]
    buffer = bytearray(b"\1") * items
    address = address_of(buffer) + PAGE - 1 & -PAGE
    size = items - PAGE & -PAGE
    PINNED.append(buffer)
    return Plan(add_atomically, (add, address, size), strided(address, size, "add_atomically"))


@scenario(items=48000000)
def kernel_read(items):
    buffer = bytearray(b"\1") * items
    file = tempfile.TemporaryFile(buffering=0)
    file.truncate(items)
    for _ in iter(lambda: file.read(1 << 20), b""):  # now it is in the page cache
        pass
    file.seek(0)
    return Plan(read_file, (file, buffer), pages_of(address_of(buffer), items, "kernel", None, "read_file"))


def freed(objects, line):
    """The last reference is dropped, then the block returns to its pool, whose header is written."""
    pinned = {id(x) for x in PINNED}
    for x in objects:
        yield id(x), "refcount" if id(x) in pinned else "free", type(x).__name__, line
        if id(x) not in pinned:
            yield id(x) // POOL * POOL, "allocator", None, line


@scenario(items=230000)
def free_list(items):
    """A list drops its last item first. It is reversed, so that memory is freed upwards: objects before pool headers."""
    data = [make_text(i) for i in range(items)]
    PINNED.extend(data[::300])
    data.reverse()
    return Plan(clear, data, freed(reversed(data), "clear"))


@scenario(items=180000)
def free_dict(items):
    data = {i + 1000: make_text(i) for i in range(items)}
    PINNED.extend(list(data)[::300] + list(data.values())[::300])
    return Plan(clear, data, freed((x for item in data.items() for x in item), "clear"))


@scenario(items=360000)
def half_empty_pools(items):
    """Every second block of that size is free; new objects go there, and the pool's header counts them."""
    size = 100
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 17)  # so that the worker's list is new memory and not what the parent freed
    data = [bytes(size) for _ in range(items)]
    addresses = array.array("Q", map(id, data[::2]))
    del data[::2]
    PINNED.append(data)
    writes = (write for address in addresses for start, bytes_written in
              ((address // POOL * POOL, 16), (address, sys.getsizeof(b"") + size))
              for write in pages_of(start, bytes_written, "allocator", None, "allocate"))
    return Plan(allocate, (len(addresses), size), writes)


def code_template(additions):
    """The code of a function of many additions, all on the line marked "generated"."""
    body = "def generated(a, b, early):\n if early: return\n " + "; ".join(["a + b"] * additions)
    scope = {}
    exec(compile(body, generated.__code__.co_filename, "exec"), scope)
    return on_one_line(scope["generated"].__code__, generated.__code__.co_firstlineno)


def on_one_line(code, line):
    """Rewrites the line table (3.11+): entries of at most 8 units, code 13 (no columns), each with a delta of 0."""
    units = len(code.co_code) // 2
    entries = [8] * (units // 8) + [units % 8] * (units % 8 > 0)
    table = b"".join(bytes((0x80 | 13 << 3 | count - 1, 0)) for count in entries)
    return code.replace(co_linetable=table, co_firstlineno=line)


def specialised(code, line):
    """The call references the function and its code; then the instructions count their executions in place."""
    begin = {11: 184, 12: 192, 13: 200, 14: 208}[sys.version_info[1]]
    yield id(code), "refcount", "code", line
    for write in pages_of(id(code) + begin, len(code.co_code), "bytecode", None, line):
        yield write


@scenario(items=500, since=(3, 11))
def bytecode(items):
    """3.11 rewrites a code object when it is entered for the eighth time; later versions count from the first execution."""
    template = code_template(10000)
    functions = [types.FunctionType(template.replace(), {}) for _ in range(items)]
    writes = (write for f in functions for write in specialised(f.__code__, "generated"))
    return Plan(call_each, (functions, 8 if sys.version_info < (3, 12) else 0), writes)


@scenario(items=154000)
def mixture_causes(items):
    """70 % of the pages from references to str, 30 % from writes to a bytearray."""
    strings = [make_text(i) for i in range(items)]
    buffer = bytearray(b"\2") * (items * 3 // (7 * 17) * PAGE)
    writes = (write for part in (references(strings, "referenced"), strided(address_of(buffer), len(buffer), "written"))
              for write in part)
    return Plan(two_causes, (strings, buffer), writes)
