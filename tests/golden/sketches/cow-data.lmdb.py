# before: opened before the fork, so all workers share one handle, its position and its caches
class Data(Dataset):
    def __init__(self, path):
        self.file = file = lmdb.open(path, readonly=True, lock=False)
        self.length = file.stat()["entries"]
    def __len__(self):
        return self.length
    def __getitem__(self, i):
        return self.file.begin().get(b"%d" % i)

# after: each worker opens it at its first read; read no item before the workers start
import lmdb

class Data(Dataset):
    def __init__(self, path):
        self.path, self.file = path, None
        with lmdb.open(path, readonly=True, lock=False) as file:
            self.length = file.stat()["entries"]
    def __len__(self):
        return self.length
    def __getitem__(self, i):
        if self.file is None:
            self.file = lmdb.open(self.path, readonly=True, lock=False)
        return self.file.begin().get(b"%d" % i)
