"""
A queue checker in the manner of Jepsen: real clients of a real daemon, disturbed at random, and a judge who reads what they noted.

`python -m tests.jepsen --rounds 20` is the campaign; `python -m tests.jepsen mutants` breaks the daemon on purpose, to see that it is
noticed; `python -m tests.jepsen fuzz` throws malformed bytes at a daemon that serves others meanwhile.

    history     what each client asked, and what it was answered, in a file of its own
    checker     the promises, numbered, over histories alone: it knows no socket
    clients     producers and consumers, each a process
    serving     the daemon as a process: start, kill, freeze, stop, fill its disk
    nemesis     what is disturbed, and when
    rounds      one round, from an empty store to the verdict; and many
    mutants     daemons that are wrong on purpose
    fuzz        malformed frames and lines, and a good client that is served meanwhile
"""
