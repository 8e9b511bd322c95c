"""Lessons: a step of ZeRO told op by op, every number of it computed from a plan and its run."""

from __future__ import annotations

from zerosim.lessons.lesson import LESSONS, Lesson, Outline, lesson
from zerosim.lessons.states import State

__all__ = ["LESSONS", "Lesson", "Outline", "State", "lesson"]
