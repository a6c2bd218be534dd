"""Complex numbers and Fourier transforms."""
import torch


def main(device):
    x = torch.randn(4, 64, device=device)
    f = torch.fft.rfft(x)  # OK
    b = torch.fft.irfft(f, n=64)  # OK
    f2 = torch.fft.fft2(x)  # OK
    s = torch.stft(x, 16, window=torch.hann_window(16, device=device), return_complex=True)  # OK
    i = torch.istft(s, 16, window=torch.hann_window(16, device=device))  # SYNC
    p = f.abs().square()  # OK
    a = f.angle()  # OK
    c = torch.complex(x, x)  # OK
    v = torch.view_as_real(c)  # OK
    r = c.real.sum()  # OK
    k = complex(c[0, 0])  # SYNC
    k = c[0, 0].item()  # SYNC
    q = c.conj() @ c.T  # OK
    n = torch.polar(x.abs(), x)  # OK
    freq = torch.fft.fftfreq(64, device=device)  # OK
    sh = torch.fft.fftshift(freq)  # OK
    z = c.clone()
    z[0] = 1j  # OK
    z.imag[:] = 0  # OK
    z.real.zero_()  # OK
    z = z * 2j  # OK
    host = c.cpu()  # SYNC # COPY
    host_conj = c.conj().cpu()  # SYNC # COPY
    hb = torch.bartlett_window(8, device=device)  # OK
    kw = torch.kaiser_window(8, device=device)  # OK
    return b, f2, i, p, a, v, r, k, q, n, sh, z, host, host_conj, hb, kw
