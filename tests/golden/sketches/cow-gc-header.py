# before: each worker's collector writes the header of every inherited object
loader = DataLoader(data, num_workers=4)

# after: the collector skips all objects that exist at the fork
import gc
gc.collect()
gc.freeze()
loader = DataLoader(data, num_workers=4)
