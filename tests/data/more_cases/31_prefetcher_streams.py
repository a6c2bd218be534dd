"""A prefetcher on a side stream with events and record_stream."""
import torch


def main(device):
    side = torch.cuda.Stream()
    main_stream = torch.cuda.current_stream()
    host = [torch.randn(1024, 256).pin_memory() for _ in range(3)]
    work = torch.randn(1024, 1024, device=device)
    out = []
    with torch.cuda.stream(side):
        nxt = host[0].to(device, non_blocking=True)  # OK
    for i in range(3):
        main_stream.wait_stream(side)  # OK
        cur = nxt
        cur.record_stream(main_stream)  # OK
        if i + 1 < 3:
            with torch.cuda.stream(side):
                nxt = host[i + 1].to(device, non_blocking=True)  # OK
        out.append(work @ cur)  # OK
    ev = torch.cuda.Event()
    with torch.cuda.stream(side):
        side.wait_stream(main_stream)  # OK
        back = out[-1].to("cpu", non_blocking=True)  # OK
        ev.record()  # OK
    main_stream.wait_event(ev)  # OK
    ready = ev.query()  # OK
    ev.synchronize()  # SYNC
    total = back.sum()  # OK
    torch.cuda.current_stream().wait_stream(side)  # OK
    dst = torch.empty(1024, 256, pin_memory=True)
    dst.copy_(out[0], non_blocking=True)  # OK
    torch.cuda.current_stream().synchronize()  # SYNC
    first = dst[0, 0].item()  # OK
    side.synchronize()  # SYNC
    busy = side.query()  # OK
    return total, first, ready, busy
