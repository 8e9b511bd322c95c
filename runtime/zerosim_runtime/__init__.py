"""The real runtime: the plan that drives the simulator, run by torch.distributed ranks and recorded."""
