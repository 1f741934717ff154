# before: each worker's collector writes the header of every inherited object
preload_app = True  # gunicorn.conf.py

# after: the collector skips all objects that exist at the fork
import gc
preload_app = True  # gunicorn.conf.py

def when_ready(server):  # in the master: after the application is loaded, before the first fork
    gc.collect()
    gc.freeze()
