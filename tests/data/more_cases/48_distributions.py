"""torch.distributions with and without validation."""
import torch
from torch import distributions as td


def main(device):
    mu, sd = torch.zeros(4, device=device), torch.ones(4, device=device)
    n = td.Normal(mu, sd, validate_args=False)
    s = n.rsample()  # OK
    lp = n.log_prob(s)  # OK
    e = n.entropy()  # OK
    kl = td.kl_divergence(n, td.Normal(mu, sd, validate_args=False))  # OK
    ind = td.Independent(n, 1)  # OK
    cov = torch.eye(4, device=device)
    mv = td.MultivariateNormal(mu, cov)  # SYNC
    x = mv.rsample()  # OK
    lq = mv.log_prob(x)  # SYNC
    mt = td.MultivariateNormal(mu, scale_tril=cov, validate_args=False)  # OK
    lr = mt.log_prob(x)  # OK
    g = td.Gamma(sd, sd, validate_args=False).rsample()  # OK
    b = td.Beta(sd, sd, validate_args=False).sample()  # OK
    d = td.Dirichlet(sd, validate_args=False).sample()  # OK
    u = td.Uniform(0.0, 1.0).sample((3,))  # OK
    u = td.Uniform(mu, sd)  # SYNC
    c = td.Categorical(logits=mu)  # SYNC
    oc = td.OneHotCategorical(logits=mu, validate_args=False).sample()  # SYNC
    mix = td.MixtureSameFamily(td.Categorical(logits=mu, validate_args=False), n, validate_args=False)  # OK
    ml = mix.log_prob(s[:1])  # OK
    ps = td.Poisson(sd, validate_args=False).sample()  # OK
    tr = td.TransformedDistribution(n, [td.ExpTransform()], validate_args=False).rsample()  # OK
    lap = td.Laplace(mu, sd, validate_args=False).rsample()  # OK
    bern = td.Bernoulli(logits=mu)  # SYNC
    bs = bern.sample()  # OK
    return lp, e, kl, ind, lq, lr, g, b, d, u, c, oc, ml, ps, tr, lap, bs
