"""Submits of one process, sorted by partition: each has a submitter for each durability, made when it is first used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from gateway.jobs import Submission, Submitted
from gateway.keys import Keyspace, partition_of
from gateway.store.client import Client
from gateway.store.durability import Durability
from gateway.store.places import Places
from gateway.store.submitter import Submitter, Waiter


class Submits:
    """Takes jobs in; `durability` and `replicas` are what a submit reaches where the call says nothing else."""

    def __init__(self, client: Client, keyspaces: Sequence[Keyspace], places: Places) -> None:
        self.durability: Durability = "memory"
        self.replicas = 1
        self._client = client
        self._keyspaces = keyspaces
        self._places = places
        self._submitters: dict[tuple[int, Durability], Submitter] = {}

    async def aclose(self) -> None:
        """Waits for submits under way."""
        for submitter in self._submitters.values():
            await submitter.aclose()

    async def submit(
        self, jobs: Sequence[Submission], durability: Durability | None = None, *, until_s: float | None = None
    ) -> list[Submitted]:
        """What became of each job, in order; those of one partition go in one script call."""
        if jobs and (len(jobs) == 1 or len(self._keyspaces) == 1):
            return await self._submitter(self._partition(jobs[0]), durability).submit(jobs, until_s)
        groups: dict[int, list[int]] = {}
        for index, job in enumerate(jobs):
            groups.setdefault(self._partition(job), []).append(index)
        answers = await asyncio.gather(
            *(
                self._submitter(partition, durability).submit([jobs[i] for i in group], until_s)
                for partition, group in groups.items()
            )
        )
        out: list[Submitted | None] = [None] * len(jobs)
        for group, answer in zip(groups.values(), answers, strict=True):
            for index, submitted in zip(group, answer, strict=True):
                out[index] = submitted
        return [submitted for submitted in out if submitted is not None]

    def ask(
        self,
        jobs: Sequence[Submission],
        waiter: Waiter,
        durability: Durability | None = None,
        *,
        until_s: float | None = None,
    ) -> None:
        """As `submit`, for jobs of one partition; the waiter is told what `submit` returns or raises."""
        partition = 0 if len(self._keyspaces) == 1 else self._partition(jobs[0])
        self._submitter(partition, durability).ask(jobs, waiter, until_s)

    async def together(self, jobs: Sequence[Submission], *, until_s: float | None = None) -> list[Submitted]:
        """All of the jobs or none in one step, in the partition of the first one, whose outbox holds the others."""
        home = self._partition(jobs[0])
        answers = await self._submitter(home, None).submit(jobs, until_s)
        if len(self._keyspaces) == 1:
            return answers
        return [
            await self._find_repeated(job, answer, until_s)
            if answer.verdict == "duplicate" and self._partition(answer) != home
            else answer
            for job, answer in zip(jobs, answers, strict=True)
        ]

    async def _find_repeated(self, job: Submission, answer: Submitted, until_s: float | None) -> Submitted:
        """What stands for a job of another partition that was accepted before: only there its state is known.

        It may not have been handed over yet, so it is submitted there under its first id, which makes it at most once.
        """
        first = (await self.submit([msgspec.structs.replace(job, job_id=answer.job_id)], until_s=until_s))[0]
        if first.verdict == "accepted" and first.status == "dead":
            # a dead copy frees a delivery's id: its own partition decides whether another one has come since
            return (await self.submit([job], until_s=until_s))[0]
        return msgspec.structs.replace(first, verdict="duplicate") if first.verdict == "accepted" else first

    def _submitter(self, partition: int, durability: Durability | None) -> Submitter:
        level = durability or self.durability
        submitter = self._submitters.get((partition, level))
        if submitter is None:
            submitter = self._submitters[partition, level] = Submitter(
                self._client,
                self._keyspaces[partition].prefix,
                place_of=self._places.of_callback,
                durability=level,
                replicas=self.replicas,
            )
        return submitter

    def _partition(self, job: Submission | Submitted) -> int:
        return partition_of(job.job_id, len(self._keyspaces))
