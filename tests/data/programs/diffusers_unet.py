"""Denoise with a small UNet and diffusers' schedulers, then one training step."""

import torch
from diffusers import DDIMScheduler, DDPMScheduler, EulerDiscreteScheduler, UNet2DModel

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = UNet2DModel(
    sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"), norm_num_groups=4, attention_head_dim=8,
).to(device)  # fmt: skip
noise = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1)).to(device)


def denoise(scheduler):
    scheduler.set_timesteps(5, device=device)
    sample = noise * scheduler.init_noise_sigma
    for t in scheduler.timesteps:
        with torch.no_grad():
            predicted = model(scheduler.scale_model_input(sample, t), t).sample
        sample = scheduler.step(predicted, t, sample).prev_sample
    return sample


ddim = denoise(DDIMScheduler(num_train_timesteps=100))
euler = denoise(EulerDiscreteScheduler(num_train_timesteps=100))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
ddpm = DDPMScheduler(num_train_timesteps=100)
steps = torch.tensor([3, 50], device=device)
noisy = ddpm.add_noise(ddim.repeat(2, 1, 1, 1), noise.repeat(2, 1, 1, 1), steps)
loss = (model(noisy, steps).sample - noise).pow(2).mean()
loss.backward()
optimizer.step()
print(f"device {ddim.device.type}")
print(f"final {ddim.sum().item():.4f} {euler.sum().item():.4f} loss {loss.item():.6f}")
