# before: one tensor per item; reading writes reference counts, in Python and in C++
items = load()

# after: all numbers in one tensor, the shapes and ends of the small ones in two more
import ctypes, torch

class Packed:
    def __init__(self, items):
        for item in items:
            if type(item) is not torch.Tensor or item.dtype != items[0].dtype or item.requires_grad:
                raise TypeError("not tensors of one dtype, without gradients")
        self.numbers = torch.cat([item.flatten() for item in items])
        self.shapes = torch.tensor([item.shape for item in items], dtype=torch.int64)
        self.ends = torch.tensor([0] + [item.numel() for item in items]).cumsum(0)
    def __len__(self):
        return len(self.shapes)
    def __getitem__(self, i):
        i = range(len(self))[i]
        if isinstance(i, range):  # items[2:5]
            return [self[k] for k in i]
        item = self.numbers[self.ends[i]:self.ends[i + 1]].reshape(self.shapes[i].tolist())
        return item.clone()  # a view would send all numbers to the trainer

items = Packed(load())
ctypes.CDLL(None).malloc_trim(0)  # glibc: or workers would copy the freed memory of the small ones

# faster, when all tensors have one shape and one dtype: one tensor
class Stacked:
    def __init__(self, items):
        for item in items:
            if type(item) is not torch.Tensor or item.dtype != items[0].dtype or item.requires_grad:
                raise TypeError("not tensors of one dtype, without gradients")
        self.tensor = torch.stack(items)
    def __len__(self):
        return len(self.tensor)
    def __getitem__(self, i):
        return self.tensor[i].clone()

items = Stacked(load())
ctypes.CDLL(None).malloc_trim(0)  # glibc: or workers would copy the freed memory of the small ones
