# before: workers allocate in inherited memory that the parent had freed, and so copy it
preload_app = True  # gunicorn.conf.py

# after: freed memory goes back to the kernel first (glibc)
import ctypes
preload_app = True  # gunicorn.conf.py

def when_ready(server):  # in the master: after the application is loaded, before the first fork
    ctypes.CDLL(None).malloc_trim(0)
