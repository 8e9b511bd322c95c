"""From a user's nn.Module to a workload: its units, its order of use, its FLOPs and activations."""
