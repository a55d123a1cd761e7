"""Capture: PostgreSQL's tables and their committed changes as Arrow batches, each transaction whole and once."""

from penstock.capture.attach import remove
from penstock.capture.batch import Batch
from penstock.capture.checkpoint import Checkpoint
from penstock.capture.checks import check
from penstock.capture.config import SourceConfig
from penstock.capture.discover import inspect
from penstock.capture.health import Health, Metrics
from penstock.capture.source import PostgresSource

__all__ = ["Batch", "Checkpoint", "Health", "Metrics", "PostgresSource", "SourceConfig", "check", "inspect", "remove"]
