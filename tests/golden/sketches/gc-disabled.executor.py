# before: the parent has called gc.disable(), and its workers inherit that
executor = ProcessPoolExecutor(4)

# after: the workers collect what they create
import gc
executor = ProcessPoolExecutor(4, initializer=gc.enable)
