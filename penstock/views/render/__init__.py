"""The algebra as SQL text, for Spark and for PostgreSQL."""

from penstock.views.render.dialect import IN_MEMORY, POSTGRES, SPARK, Dialect, dialect_of
from penstock.views.render.placeholder import placeholder
from penstock.views.render.renderer import Renderer

__all__ = ["IN_MEMORY", "POSTGRES", "SPARK", "Dialect", "Renderer", "dialect_of", "placeholder"]
