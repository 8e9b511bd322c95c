"""The scores as a page of Markdown: what docs/accuracy.md is made of."""

from zerosim.validation.report.page import page

__all__ = ["page"]
