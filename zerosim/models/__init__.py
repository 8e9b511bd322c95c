"""Models: from a few sizes to the units and layers of a workload."""

from zerosim.models.extracted import Use, extracted
from zerosim.models.listed import listed
from zerosim.models.sizes import Sizes
from zerosim.models.transformer import transformer
from zerosim.models.uniform import uniform

__all__ = ["Sizes", "Use", "extracted", "listed", "transformer", "uniform"]
