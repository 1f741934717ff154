# before: opened before the fork, so all workers share one handle, its position and its caches
class Data(Dataset):
    def __init__(self, path):
        self.file = file = h5py.File(path, "r")
        self.length = len(file["x"])
    def __len__(self):
        return self.length
    def __getitem__(self, i):
        return self.file["x"][i]

# after: each worker opens it at its first read; read no item before the workers start
import h5py

class Data(Dataset):
    def __init__(self, path):
        self.path, self.file = path, None
        with h5py.File(path, "r") as file:
            self.length = len(file["x"])
    def __len__(self):
        return self.length
    def __getitem__(self, i):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        return self.file["x"][i]
