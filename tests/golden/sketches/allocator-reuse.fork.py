# before: workers allocate in inherited memory that the parent had freed, and so copy it
pid = os.fork()

# after: freed memory goes back to the kernel first (glibc)
import ctypes
ctypes.CDLL(None).malloc_trim(0)
pid = os.fork()
