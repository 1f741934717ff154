# before: each worker's collector writes the header of every inherited object
pid = os.fork()

# after: the collector skips all objects that exist at the fork
import gc
gc.collect()
gc.freeze()
pid = os.fork()
