"""
What must survive: kill -9, power cuts, failing system calls and damaged files, tried on purpose.

`python -m tests.crash --help` lists the campaigns. The parts below know nothing of the engine:

    strace, trace     what a program asked of the kernel, recorded with strace, as `events`
    pages, names      what a disk may hold of a file's bytes and of a directory's names; `disk` is both, followed event by event
    states            the contents that a power cut may leave behind, and how to write one into a directory
    appendlog         a toy program that is right or wrong on request, so that the parts above can be tested

and these do: `program` (a random program over the public verbs), `workload` (the child that runs it), `oracle`
(is this recovered store one that may be?), and one module for each campaign: `power`, `kill`, `faults`, `mutants`, `damage`.
"""
