"""What a client asks for, read into `gateway.jobs.Submission`: bodies of `POST /jobs`, batches, deliveries."""

from __future__ import annotations

from gateway.submission.batch import MAX_BATCH, split_array, split_lines
from gateway.submission.body import SubmitBody
from gateway.submission.catalog import Caller, Catalog
from gateway.submission.decoding import check_text, decode_body
from gateway.submission.delivery import delivery_submissions
from gateway.submission.reading import parse_submission
from gateway.submission.schedule import job_facts, parse_schedule

__all__ = [
    "MAX_BATCH",
    "Caller",
    "Catalog",
    "SubmitBody",
    "check_text",
    "decode_body",
    "delivery_submissions",
    "job_facts",
    "parse_schedule",
    "parse_submission",
    "split_array",
    "split_lines",
]
