"""A mask that the encoder compares with the causal one."""

import torch


def main(device):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True, device=device)
    encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(4, device=device)
    return encoder(torch.ones(1, 4, 8, device=device), mask=mask)
