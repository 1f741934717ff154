# before: the parent has called gc.disable(), and its workers inherit that
loader = DataLoader(data, num_workers=4)

# after: the workers collect what they create
import gc

def collect_again(worker):
    gc.enable()

loader = DataLoader(data, num_workers=4, worker_init_fn=collect_again)
