"""torch.distributed with one process."""
import torch
import torch.distributed as dist


def main(device):
    backend = "nccl" if torch.device(device).type == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(8, device=device)
    for _ in range(2):
        dist.all_reduce(x)  # OK
        dist.broadcast(x, 0)  # OK
        dist.reduce(x, 0)  # OK
        h = dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True)  # OK
        h.wait()  # OK
        out = torch.empty(8, device=device)
        dist.all_gather_into_tensor(out, x)  # OK
        dist.reduce_scatter_tensor(out, x)  # OK
        dist.all_to_all_single(out, x)  # OK
        objs = [{"a": 1}]
        dist.broadcast_object_list(objs, 0)  # SYNC # COPY
        box = [None]
        dist.gather_object({"b": 2}, box, 0)  # SYNC # COPY
        dist.barrier()  # SYNC
        loss = x.sum()  # OK
        dist.all_reduce(loss)  # OK
        avg = loss.item() / dist.get_world_size()  # SYNC
        n = torch.tensor([3], device=device)  # SYNC # COPY
        dist.all_reduce(n)  # OK
        total = int(n)  # SYNC
    lin = torch.nn.Linear(8, 8).to(device)
    ddp = torch.nn.parallel.DistributedDataParallel(lin)
    for _ in range(2):
        ddp(x.view(1, 8)).sum().backward()  # OK
    dist.destroy_process_group()  # SYNC
    return avg, total, box, objs
