# before: workers allocate in inherited memory that the parent had freed, and so copy it
executor = ProcessPoolExecutor(4)

# after: freed memory goes back to the kernel first (glibc)
import ctypes
ctypes.CDLL(None).malloc_trim(0)
executor = ProcessPoolExecutor(4)
