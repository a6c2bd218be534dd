"""Queries of the device: none of them waits but the explicit ones."""
import torch


def main(device):
    x = torch.randn(64, 64, device=device)
    a = torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device()  # OK
    b = torch.cuda.get_device_name(0), torch.cuda.get_device_capability()  # OK
    c = torch.cuda.get_device_properties(0).total_memory  # OK
    d = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()  # OK
    e = torch.cuda.memory_reserved(), torch.cuda.memory_stats()["num_alloc_retries"]  # OK
    torch.cuda.reset_peak_memory_stats()  # OK
    f = torch.cuda.memory_summary()  # OK
    g = torch.cuda.mem_get_info()  # OK
    s = torch.cuda.current_stream(), torch.cuda.default_stream()  # OK
    state = torch.cuda.get_rng_state()  # OK
    torch.cuda.set_rng_state(state)  # OK
    torch.manual_seed(0)  # OK
    torch.cuda.manual_seed_all(1)  # OK
    gen = torch.Generator(device=device).manual_seed(3)  # OK
    r = torch.rand(3, device=device, generator=gen)  # OK
    st = gen.get_state()  # OK
    gen.set_state(st)  # OK
    with torch.random.fork_rng(devices=[0]):  # OK
        torch.randn(2, device=device)  # OK
    p = torch.randperm(10, device=device)  # OK
    p = torch.randperm(100000, device=device)  # OK
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()  # OK
    y = x @ x  # OK
    end.record()  # OK
    torch.cuda.synchronize()  # SYNC
    t = start.elapsed_time(end)  # OK
    bf = torch.cuda.is_bf16_supported()  # OK
    torch.backends.cuda.matmul.allow_tf32 = True  # OK
    torch.cuda.nvtx.range_push("a")  # OK
    torch.cuda.nvtx.range_pop()  # OK
    with torch.cuda.device(0):  # OK
        q = torch.zeros(3, device="cuda")  # OK
    ptr, sz, st2 = x.data_ptr(), x.element_size(), x.untyped_storage().nbytes()  # OK
    return a, b, c, d, e, f, g, s, r, p, t > 0, bf, y, q, ptr, sz, st2
