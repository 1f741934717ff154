# before: 8 * 4 = 32 batches in /dev/shm at once
loader = DataLoader(data, batch_size=256, num_workers=8, prefetch_factor=4)

# after: 4 * 2 = 8
loader = DataLoader(data, batch_size=256, num_workers=4, prefetch_factor=2)
