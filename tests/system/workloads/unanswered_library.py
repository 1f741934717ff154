"""A Python with a forked child that nobody can look into: a file of a FUSE file system that does not answer reads is mapped over its
interpreter's state, and looks like a library of the program.

unanswered_library.py FOLDER. Serves the file system itself. Prints {"child": PID}, and ends when stdin does.
"""
import ctypes
import mmap
import os
import signal
import struct
import sys
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LOOKUP, GETATTR, OPEN, READ, INIT = 1, 3, 14, 15, 26  # include/uapi/linux/fuse.h
SIZE = 1 << 20


def attributes(node):
    mode, size = (0o40755, 0) if node == 1 else (0o100644, SIZE)
    return struct.pack("=QQQQQQIIIIIIIIII", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def serve(device):
    while True:
        request = os.read(device, 1 << 17)
        _, operation, unique, node = struct.unpack_from("=IIQQ", request)
        if operation == READ:
            continue  # forever
        body, error = b"", 0
        if operation == INIT:
            body = struct.pack("=IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 1 << 16, 1, 0, 0, 0)
        elif operation == LOOKUP:
            body = struct.pack("=QQQQII", 2, 0, 60, 60, 0, 0) + attributes(2)
        elif operation == GETATTR:
            body = struct.pack("=QII", 60, 0, 0) + attributes(node)
        elif operation == OPEN:
            body = struct.pack("=QII", 0, 0, 0)
        else:
            error = -38  # ENOSYS
        os.write(device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)


def main():
    folder = sys.argv[1].encode()
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if LIBC.mount(b"fuse", folder, b"fuse", 0, options) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    threading.Thread(target=serve, args=(device,), daemon=True).start()
    child = os.fork()
    if child == 0:
        file = os.open(os.path.join(folder, b"libpython3.9.so.1.0"), os.O_RDONLY)
        os.close(device)  # so that its reads end with the parent
        LIBC.mmap(None, SIZE, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file, 0)
        state = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")) & ~0xFFF
        # The child does not come back from it: its next instruction of Python waits for the file.
        LIBC.mmap(state, 2 * mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | 0x10, file, 0)  # MAP_FIXED
    os.write(1, b'{"child": %d}\n' % child)
    os.read(0, 1)
    os.kill(child, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


main()
